// SPDX-License-Identifier: MIT
// How many stream captures are active in this process.
#pragma once

#include "auditor/after_fork.hpp"
#include "protocol/calls.hpp"

namespace watch {

/// A capture counts from before its beginning until after its end.
inline bool captures_are_active() { return cleared_by_fork->captures.load(std::memory_order_seq_cst) != 0; }

constexpr bool begins_capture(Verb verb) {
  return verb == Verb::capture_begin || verb == Verb::capture_into_graph;
}

/// The calls that begin a capture, or may end one.
constexpr bool changes_captures(Verb verb) {
  return begins_capture(verb) || verb == Verb::capture_end || verb == Verb::stream_destroy;
}

/// Before a call that begins a capture.
void count_capture_before();

/// After a call that changes captures. `stream` is the first word of the call.
void count_capture_after(Verb verb, CUresult result, std::uint64_t stream);

} // namespace watch
