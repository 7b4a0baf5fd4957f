// SPDX-License-Identifier: MIT
#include "rules/call.hpp"

#include <algorithm>
#include <iterator>

namespace watch {

namespace {

using Word = std::uint64_t Call::*;

/// By Field. A handle that the call returns is 0 if the call failed. The null stream is CU_STREAM_LEGACY, in
/// per-thread variants CU_STREAM_PER_THREAD.
constexpr Word members[] = {
    nullptr,           &Call::stream_handle, &Call::event, &Call::second_event, &Call::graph,
    &Call::made_graph, &Call::exec,          &Call::node,  &Call::function,     &Call::named_context,
    &Call::device,     &Call::flags,         &Call::mode,  &Call::address,      &Call::value,
    &Call::number,     &Call::node_type,
};
static_assert(std::size(members) == static_cast<std::size_t>(Field::node_type) + 1);

/// Of a record that is no call of the program.
std::array<Word, 4> words_of(Verb verb) {
  switch (verb) {
  case Verb::probe:
    return {&Call::stream_handle, &Call::number, &Call::slot, &Call::flags};
  case Verb::hold:
    return {&Call::stream_handle, &Call::number, &Call::value, &Call::slot};
  case Verb::memory_part:
    return {&Call::number, &Call::address, &Call::value, &Call::flags};
  case Verb::spent:
    return {&Call::number, &Call::address, &Call::value, &Call::stream_handle};
  default:
    return {&Call::graph, &Call::node, &Call::event, &Call::node_type};
  }
}

std::array<Word, 4> words_of(const Call& call) {
  if (!call.is_of_the_program()) return words_of(call.verb());
  std::array<Word, 4> words{};
  std::ranges::transform(entry_data[call.entry].words, words.begin(),
                         [](Field field) { return members[static_cast<std::size_t>(field)]; });
  return words;
}

/// Of the nodes of one kind that have an event.
std::uint64_t type_of_node(Work work) {
  if (work == Work::wait) return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  return work == Work::record ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : 0;
}

} // namespace

std::uint32_t result_of(std::uint32_t number) {
  constexpr std::uint32_t numbers = 1024; // those that a CUresult can have
  return number < numbers ? number : static_cast<std::uint32_t>(CUDA_ERROR_UNKNOWN);
}

Call decoded(const CallData& data) {
  Call call;
  call.entry = data.entry;
  call.marks = data.marks % null_handle;
  const unsigned kind = data.marks / null_handle;
  if (kind <= static_cast<unsigned>(HandleKind::external_semaphore))
    call.null_handle = static_cast<HandleKind>(kind);
  if (data.entry >= entry_count ? data.entry != spent_entry : entry_data[data.entry].suffix == nullptr)
    call.marks &= static_cast<std::uint8_t>(~per_thread);
  call.thread = data.thread;
  call.result = result_of(data.result);
  call.stack = data.stack;
  call.context = data.context;
  const std::size_t count = std::min<std::size_t>(data.count, std::size(data.words));
  const Verb verb = call.verb();
  const std::array<Word, 4> words = words_of(call);
  for (std::size_t i = 0; i < count; ++i)
    if (words[i] != nullptr) call.*words[i] = data.words[i];
  const bool waits_for_context = verb == Verb::context_synchronize || verb == Verb::copy;
  if (waits_for_context && call.named_context == 0) call.named_context = call.context;
  if (call.node_type == 0) call.node_type = type_of_node(call.work());
  if (call.has(relaxed_capture)) call.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (can_block(verb)) call.ticks = data.words[3];
  if (verb == Verb::spent) {
    call.ticks = call.number >> 16U;
    call.number = std::min<std::uint64_t>(call.number & 0xFFFFU, entry_count - 1);
  }
  return call;
}

} // namespace watch
