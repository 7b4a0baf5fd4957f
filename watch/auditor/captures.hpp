// SPDX-License-Identifier: MIT
// How many stream captures are active in this process.
#pragma once

#include "protocol/calls.hpp"

#include <atomic>
#include <cstdint>

namespace watch {

/// A capture counts from before its beginning until after its end.
struct Captures {
  std::atomic<std::uint32_t> count;
  std::atomic<std::uint64_t> origins[64]; // streams on which the captures began; 0 for a free place

  bool are_active() const { return count.load(std::memory_order_seq_cst) != 0; }
};

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
