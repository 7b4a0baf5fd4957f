// SPDX-License-Identifier: MIT
/// \file
/// \brief PollLimit: how much one poll of a CompletionQueue may do.
#pragma once

#include <cuevent/time_limit.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// How much one poll may do, for a thread that also has other work. The default has no limit.
///
///     CompletionQueue queue(context);
///     queue.poll(PollLimit{8});                 // at most 8 callbacks
///     queue.poll(PollLimit{8, Deadline(20us)}); // and none starts after 20 us
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct PollLimit {
  /// The largest number of callbacks that the poll runs.
  std::size_t callbacks = SIZE_MAX;
  /// From then on the poll makes no query and starts no callback. If the deadline has passed when
  /// the poll starts, the poll does nothing. The default never comes.
  Deadline deadline = Deadline(std::chrono::nanoseconds::max());
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
