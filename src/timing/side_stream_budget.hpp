// SPDX-License-Identifier: MIT
// The budget of side streams that the timers of a context share. Inside the library only.
#pragma once

#include <cuevent/context.hpp>

#include <atomic>
#include <cstddef>
#include <memory>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The number of side streams in use in one context. Each context that ever had a side stream has
/// one such object. The objects are never destroyed, so they need no lock, which a fork could leave
/// locked.
struct SideStreams {
  Driver driver;
  unsigned long long id; // of the context
  std::atomic<std::size_t> in_use{0};
  SideStreams* next = nullptr;

  struct GiveBack {
    void operator()(SideStreams* of_context) const noexcept {
      of_context->in_use.fetch_sub(1, std::memory_order_relaxed);
    }
  };
};

/// The right to use one side stream, given back by the destructor. Null if it was not granted.
using SideStreamPermit = std::unique_ptr<SideStreams, SideStreams::GiveBack>;

/// Grants a permit if all timers together use fewer than `most` side streams in the context. Any
/// thread. Throws std::bad_alloc.
SideStreamPermit permit_side_stream(const Context& context, std::size_t most);

}} // namespace cuevent::CUEVENT_ABI
