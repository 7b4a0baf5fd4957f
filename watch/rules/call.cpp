// SPDX-License-Identifier: MIT
#include "rules/call.hpp"

#include <algorithm>
#include <cstring>

namespace watch {

namespace {

/// The words of a record, in the order of the arguments of the driver's function. A handle that the call
/// returns is 0 if the call failed. The null stream is CU_STREAM_LEGACY, in per-thread variants
/// CU_STREAM_PER_THREAD.
struct Row {
  Verb verb;
  std::array<std::uint64_t Call::*, 4> words;
};

using C = Call;
constexpr Row rows[] = {
    {Verb::lookup, {}},
    {Verb::event_create, {&C::event, &C::flags}},
    {Verb::event_open, {&C::event}},
    {Verb::event_destroy, {&C::event}},
    {Verb::event_record, {&C::event, &C::stream_handle, &C::flags}},
    {Verb::context_record, {&C::named_context, &C::event}},
    {Verb::event_query, {&C::event}},
    {Verb::event_synchronize, {&C::event}},
    {Verb::event_elapsed, {&C::event, &C::second_event}},
    {Verb::event_export, {&C::event}},
    {Verb::stream_wait, {&C::stream_handle, &C::event, &C::flags}},
    {Verb::context_wait, {&C::named_context, &C::event}},
    {Verb::stream_create, {&C::stream_handle, &C::flags}},
    {Verb::stream_create_green, {&C::stream_handle, nullptr, &C::flags}}, // the second is the green context
    {Verb::stream_destroy, {&C::stream_handle}},
    {Verb::stream_query, {&C::stream_handle}},
    {Verb::stream_synchronize, {&C::stream_handle}},
    {Verb::capture_begin, {&C::stream_handle, &C::mode}},
    {Verb::capture_into_graph, {&C::stream_handle, &C::graph, &C::mode}},
    {Verb::capture_end, {&C::stream_handle, &C::made_graph}},
    {Verb::exchange_mode, {&C::mode}},
    {Verb::work, {&C::stream_handle, &C::function, &C::event, &C::second_event}}, // that the launch records
    {Verb::value_wait, {&C::stream_handle, &C::address, &C::value, &C::flags}},
    {Verb::value_write, {&C::stream_handle, &C::address, &C::value, &C::flags}},
    {Verb::graph_launch, {&C::exec, &C::stream_handle, &C::number}},
    {Verb::graph_create, {&C::made_graph, &C::flags}},
    {Verb::graph_destroy, {&C::graph}},
    {Verb::graph_clone, {&C::made_graph, &C::graph}},
    {Verb::graph_instantiate, {&C::exec, &C::graph}},
    {Verb::exec_destroy, {&C::exec}},
    {Verb::exec_update, {&C::exec, &C::graph}},
    {Verb::node_add_event, {&C::node, &C::graph, &C::event, &C::node_type}}, // no event: another kind of node
    {Verb::node_set_event, {&C::node, &C::event, &C::node_type}},
    {Verb::exec_set_event, {&C::exec, &C::node, &C::event, &C::node_type}},
    {Verb::stream_ask, {&C::stream_handle}},
    {Verb::graph_ask, {&C::graph}},
    {Verb::exec_ask, {&C::exec}},
    {Verb::node_add, {&C::node, &C::graph}},
    {Verb::exec_change, {&C::exec, &C::node}},
    {Verb::graph_change, {&C::graph}},
    {Verb::node_change, {&C::node}},
    {Verb::capture_change, {&C::stream_handle, &C::flags}},
    {Verb::primary_retain, {&C::named_context, &C::device}},
    {Verb::context_create, {&C::named_context}}, // the last word is the device
    {Verb::context_destroy, {&C::named_context}},
    {Verb::green_destroy, {&C::named_context}},
    {Verb::primary_release, {&C::device}},
    {Verb::device_reset, {&C::device}},
    {Verb::name_function, {}},
    {Verb::context_synchronize, {&C::named_context}},
    {Verb::copy, {}},
    {Verb::memory_make, {}},
    {Verb::memory_free, {}},
    {Verb::other, {}},
    {Verb::probe, {&C::stream_handle, &C::number, &C::slot}},
    {Verb::graph_event, {&C::graph, &C::node, &C::event, &C::node_type}},
    {Verb::hold, {&C::stream_handle, &C::number, &C::value, &C::slot}},
    {Verb::memory_part, {&C::number, &C::address, &C::value, &C::flags}},
};

constexpr bool are_in_order() {
  for (std::size_t i = 0; i < std::size(rows); ++i)
    if (static_cast<std::size_t>(rows[i].verb) != i) return false;
  return true;
}
static_assert(are_in_order());

/// Functions for one kind of node do not record which.
std::uint64_t type_of_node(const Call& call) {
  return std::strstr(entry_data[call.entry].name, "WaitNode") != nullptr ? CU_GRAPH_NODE_TYPE_WAIT_EVENT
                                                                         : CU_GRAPH_NODE_TYPE_EVENT_RECORD;
}

} // namespace

std::uint32_t result_of(std::uint32_t number) {
  constexpr std::uint32_t numbers = 1024; // those that a CUresult can have
  return number < numbers ? number : static_cast<std::uint32_t>(CUDA_ERROR_UNKNOWN);
}

Call decoded(const CallData& data) {
  Call call;
  call.entry = data.entry;
  call.marks = data.marks;
  if (data.entry >= entry_count || entry_data[data.entry].suffix == nullptr)
    call.marks &= static_cast<std::uint8_t>(~per_thread);
  call.thread = data.thread;
  call.result = result_of(data.result);
  call.stack = data.stack;
  call.context = data.context;
  const std::size_t count = std::min<std::size_t>(data.count, std::size(data.words));
  const Verb verb = call.verb();
  const auto& words = rows[static_cast<std::size_t>(verb)].words;
  for (std::size_t i = 0; i < count; ++i)
    if (words[i] != nullptr) call.*words[i] = data.words[i];
  if (verb == Verb::context_create && count > 0) call.device = data.words[count - 1];
  const bool waits_for_context = verb == Verb::context_synchronize || verb == Verb::copy;
  if (waits_for_context && call.named_context == 0) call.named_context = call.context;
  const bool is_of_a_function = data.entry < entry_count; // and not one of the numbers above
  if (is_of_a_function && count < std::size(words) && words[count] == &Call::node_type)
    call.node_type = type_of_node(call);
  if (can_block(verb)) call.ticks = data.words[3];
  return call;
}

} // namespace watch
