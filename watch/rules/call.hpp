// SPDX-License-Identifier: MIT
// A call as the rules see it. A record is decoded once, when it is read; nothing else looks at its words.
#pragma once

#include "protocol/calls.hpp"
#include "protocol/jitter_plan.hpp"
#include "protocol/protocol.hpp"

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace watch {

using Handle = std::uint64_t;

/// A stream. Default streams are told apart by context, and per-thread ones also by thread.
struct StreamKey {
  Handle handle = 0, context = 0;
  std::uint32_t thread = 0;

  auto operator<=>(const StreamKey&) const = default;
};

/// The key of the stream that a thread means by this handle while the context is current.
inline StreamKey key_of(Handle handle, Handle context, std::uint32_t thread) {
  if (handle == 0 || !is_default_stream(handle)) return {handle, 0, 0};
  return {handle, context, handle == 2 ? thread : 0};
}

struct Call {
  std::uint16_t entry = 0; // index into entry_data
  std::uint8_t marks = 0;
  bool returned = true; // false: the process ended in this call, or is still in it
  std::uint32_t thread = 0, result = 0;
  std::uint32_t stack = 0;             // number of the stack, 0 for none
  Handle context = 0;                  // that was current; 0 if the call does not depend on it
  std::chrono::nanoseconds time{};     // when it returned, on CLOCK_MONOTONIC, to about a millisecond
  std::chrono::nanoseconds duration{}; // of calls that can block

  // What it is about. EntryData::words tells what a call has; the rest is 0.
  Handle stream_handle = 0;
  Handle event = 0;                 // that it uses or makes
  Handle second_event = 0;          // of an elapsed time, its end
  Handle graph = 0, made_graph = 0; // that it uses, and that it makes or has filled
  Handle exec = 0, node = 0, function = 0;
  Handle named_context = 0; // that it makes, ends or waits for; may be a green context
  std::uint64_t device = 0, flags = 0;
  std::uint64_t mode = 0; // CUstreamCaptureMode
  // Of a memory operation; the value of a hold: its time in us. Of a call that took time: see spent_entry.
  std::uint64_t address = 0, value = 0;
  std::uint64_t number = 0; // of a launch of an executable graph, a probe or a hold; the entry that took time
  std::uint64_t slot = 0;   // of a probe, in Region::streams; of a hold: its entry
  std::uint64_t node_type = 0;               // CUgraphNodeType
  std::uint64_t ticks = 0;                   // that a call took which can block
  HoldPlace place = {};                      // of a submission, with --order and --jitter
  HandleKind null_handle = HandleKind::none; // of a failed call: the first of its handles that is null

  Verb verb() const {
    if (is_of_the_program()) return entry_data[entry].verb;
    if (entry == memory_entry) return Verb::memory_part;
    if (entry == hold_entry) return Verb::hold;
    if (entry == spent_entry) return Verb::spent;
    return entry == probe_entry ? Verb::probe : Verb::graph_event;
  }
  Work work() const { return is_of_the_program() ? entry_data[entry].work : Work::none; }
  bool has(Effect effect) const { return is_of_the_program() && entry_data[entry].has(effect); }
  bool is_of_the_program() const { return entry < entry_count; }
  /// Of memory that a pending copy uses.
  bool is_use_by_host() const {
    const auto part = static_cast<MemoryPart>(number);
    return entry == memory_entry && (part == MemoryPart::target_used || part == MemoryPart::source_changed);
  }
  bool succeeded() const { return returned && result == CUDA_SUCCESS; }
  bool has_stream() const { return stream_handle != 0; }
  StreamKey stream() const { return key_of(stream_handle, context, thread); }
  /// The events that it uses or makes; 0 for none.
  std::array<Handle, 2> events() const { return {event, second_event}; }
  /// "cuEventRecord_ptsz".
  std::string name() const {
    if (!is_of_the_program()) return is_use_by_host() ? "the program itself" : "PyTorch's allocator";
    const EntryData& data = entry_data[entry];
    return std::string(data.symbol) + ((marks & per_thread) != 0 ? data.suffix : "");
  }
};

/// The result with this number. A process may show any number.
std::uint32_t result_of(std::uint32_t number);

/// Without numbers that lead astray: another process may have written anything.
Call decoded(const CallData& data);

} // namespace watch
