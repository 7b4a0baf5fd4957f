// SPDX-License-Identifier: MIT
// The events that graphs refer to.
#include "rules/rules.hpp"

namespace watch {

namespace {

/// Whether a call makes a graph record its event. Other calls with an event make the graph wait for it.
bool is_record(const Call& call) {
  const unsigned type = call.verb() == Verb::node_set_event ? 2 : 3; // the word that tells, if there is one
  switch (call.verb()) {
  case Verb::node_add_event:
  case Verb::node_set_event:
  case Verb::exec_set_event:
    return call.count > type ? call.words[type] == CU_GRAPH_NODE_TYPE_EVENT_RECORD
                             : call.name().find("WaitNode") == std::string::npos;
  default:
    return call.verb() != Verb::stream_wait;
  }
}

} // namespace

void Rules::note_event_in_graph(const Call& call, Handle event) {
  if (event == 0) return; // a node of another kind
  EventState& state = events_[event];
  state.put_in_graph = call;
  state.recorded_by_graph = state.recorded_by_graph || is_record(call);
}

void Rules::see_graph(const Call& call) {
  const auto words = call.words;
  if (!call.succeeded()) return;
  switch (call.verb()) {
  case Verb::graph_create:
  case Verb::graph_clone:
    graphs_[words[0]] = {call, std::nullopt, {}};
    break;
  case Verb::capture_end:
    graphs_[words[1]] = {call, std::nullopt, {}};
    break;
  case Verb::graph_destroy:
    graphs_[words[0]].destroyed = call;
    break;
  case Verb::graph_event: {
    EventState& event = events_[words[2]];
    if (words[3] == CU_GRAPH_NODE_TYPE_EVENT_RECORD) event.recorded_by_graph = true;
    graphs_[words[0]].events.push_back({words[1], words[2], event.put_in_graph});
    break;
  }
  case Verb::graph_instantiate: {
    std::vector<EventNode> events = std::exchange(graphs_[words[1]].events, {});
    check_events_of(call, events);
    execs_[words[0]] = {call, std::nullopt, std::move(events)};
    break;
  }
  case Verb::exec_destroy:
    execs_[words[0]].destroyed = call;
    break;
  case Verb::exec_update: { // the nodes of its first graph keep their places
    std::vector<EventNode>& events = execs_[words[0]].events;
    const std::vector<EventNode> now = std::exchange(graphs_[words[1]].events, {});
    if (events.size() != now.size()) events = now;
    for (std::size_t i = 0; i < now.size(); ++i)
      events[i] = {events[i].node, now[i].event, now[i].put_there};
    break;
  }
  case Verb::node_add_event:
    note_event_in_graph(call, words[2]);
    break;
  case Verb::node_set_event:
    note_event_in_graph(call, words[1]);
    break;
  case Verb::exec_set_event: {
    note_event_in_graph(call, words[2]);
    for (EventNode& node : execs_[words[0]].events)
      if (node.node == words[1] && words[2] != 0) node = {words[1], words[2], call};
    break;
  }
  default:
    break;
  }
}

/// The driver may crash in the instantiation of a graph that refers to a destroyed event.
void Rules::check_events_of(const Call& call, const std::vector<EventNode>& events) {
  for (const EventNode& node : events) {
    const EventState& event = events_[node.event];
    if (!event.destroyed) continue;
    std::vector<Earlier> earlier;
    add(earlier, "the graph refers to the event since here", node.put_there);
    earlier.push_back({"the event was destroyed here", *event.destroyed});
    report(Rule::destroyed_in_graph, call,
           event_text(node.event) + " was destroyed before this instantiation" +
               (call.returned ? "" : ", and the process ended in this call"),
           std::move(earlier));
  }
}

/// The graphs refer to an event that is gone, and not to another one of the same handle.
void Rules::forget_in_graphs(Handle event) {
  for (auto& [exec, state] : execs_)
    std::erase_if(state.events, [&](const EventNode& node) { return node.event == event; });
}

void Rules::check_graphs_with(const Call& call, Handle handle) {
  for (const auto& [exec, state] : execs_) {
    if (state.destroyed) continue;
    for (const EventNode& node : state.events)
      if (node.event == handle) {
        std::vector<Earlier> earlier;
        add(earlier, "the graph refers to the event since here", node.put_there);
        earlier.push_back({"the graph was instantiated here", state.created});
        return report(Rule::destroyed_in_graph, call,
                      event_text(handle) + " is destroyed, but an executable graph refers to it",
                      std::move(earlier));
      }
  }
}

} // namespace watch
