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

void Rules::add_event_to_graph(const Call& call, Handle graph, Handle node, Handle event) {
  if (event == 0) return; // a node of another kind
  if (node == 0) node = next_number_++;
  graphs_[graph][node] = {event, call};
  graph_of_node_[node] = graph;
  note_event_in_graph(call, event);
}

void Rules::note_event_in_graph(const Call& call, Handle event) {
  EventState& state = events_[event];
  state.in_graph = true;
  state.recorded_by_graph = state.recorded_by_graph || is_record(call);
}

void Rules::see_graph(const Call& call) {
  const auto words = call.words;
  if (!call.succeeded()) return;
  switch (call.verb()) {
  case Verb::graph_destroy:
    graphs_.erase(words[0]);
    break;
  case Verb::graph_clone: {
    const EventsOfGraph events = graphs_[words[1]];
    graphs_[words[0]] = events;
    break;
  }
  case Verb::graph_instantiate: {
    const EventsOfGraph& events = graphs_[words[1]];
    execs_[words[0]] = {call, std::nullopt, events};
    for (const auto& [node, event] : events)
      if (const EventState& state = events_[event.first]; state.destroyed)
        report(Rule::destroyed_in_graph, call,
               event_text(event.first) + " was destroyed before this instantiation",
               {{"the graph refers to the event since here", event.second},
                {"the event was destroyed here", *state.destroyed}});
    break;
  }
  case Verb::exec_destroy:
    execs_[words[0]].destroyed = call;
    break;
  case Verb::exec_update:
    execs_[words[0]].events = graphs_[words[1]];
    break;
  case Verb::node_add_event:
    add_event_to_graph(call, words[1], words[0], words[2]);
    break;
  case Verb::node_set_event:
    if (const auto graph = graph_of_node_.find(words[0]); graph != graph_of_node_.end())
      add_event_to_graph(call, graph->second, words[0], words[1]);
    break;
  case Verb::node_destroy:
    if (const auto graph = graph_of_node_.find(words[0]); graph != graph_of_node_.end()) {
      graphs_[graph->second].erase(words[0]);
      graph_of_node_.erase(graph);
    }
    break;
  case Verb::exec_set_event: {
    if (words[2] == 0) break;
    EventsOfGraph& events = execs_[words[0]].events;
    // Of a node from a capture the handle is not known, so neither is the event that is replaced.
    if (events.find(words[1]) == events.end()) events.clear();
    events[words[1]] = {words[2], call};
    note_event_in_graph(call, words[2]);
    break;
  }
  case Verb::node_add_child: {
    const EventsOfGraph child = graphs_[words[2]];
    for (const auto& [node, event] : child)
      graphs_[words[1]][next_number_++] = event;
    break;
  }
  default:
    break;
  }
}

/// The graphs refer to an event that is gone, and not to another one of the same handle.
void Rules::forget_in_graphs(Handle event) {
  const auto is_of_event = [&](const auto& node) { return node.second.first == event; };
  for (auto& [graph, events] : graphs_)
    std::erase_if(events, is_of_event);
  for (auto& [exec, state] : execs_)
    std::erase_if(state.events, is_of_event);
}

void Rules::check_graphs_with(const Call& call, Handle handle) {
  for (const auto& [exec, state] : execs_) {
    if (state.destroyed) continue;
    for (const auto& [node, event] : state.events)
      if (event.first == handle)
        return report(Rule::destroyed_in_graph, call,
                      event_text(handle) + " is destroyed, but an executable graph refers to it",
                      {{"the graph refers to the event since here", event.second},
                       {"the graph was instantiated here", state.created}});
  }
}

} // namespace watch
