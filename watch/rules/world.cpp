// SPDX-License-Identifier: MIT
#include "rules/world.hpp"

#include <algorithm>

namespace watch {

void World::see(const Call& call) {
  for (const auto& observer : observers_)
    observer->before(call);
  if (call.returned) apply(call);
  put_in_order(call);
  for (const auto& observer : observers_)
    observer->after(call);
}

void World::end(bool by_itself) {
  for (const auto& observer : observers_)
    observer->end(by_itself);
}

StreamState& World::known_stream(const StreamKey& key) {
  if (last_stream_ != nullptr && last_stream_->first == key) return last_stream_->second;
  const auto [found, is_new] = streams_.try_emplace(key);
  last_stream_ = &*found;
  if (!is_new) return found->second;
  found->second.number = ++last_number_;
  found->second.context = key.context;
  found->second.blocking = key.handle == 2;
  if (key.thread != 0) note_thread_stream(key);
  return found->second;
}

EventState& World::known_event(Handle handle) {
  EventState& event = events_[handle];
  if (event.number == 0) event.number = ++last_number_;
  return event;
}

bool World::is_capturing(const StreamKey& key) const {
  const StreamState* const found = stream(key);
  return found != nullptr && found->is_capturing();
}

bool World::is_external_outside_capture(const Call& call) const {
  return (call.verb() == Verb::event_record || call.verb() == Verb::stream_wait) && call.flags != 0 &&
         call.result == CUDA_ERROR_ILLEGAL_STATE && !is_capturing(call.stream());
}

void World::apply(const Call& call) {
  if (call.result != CUDA_SUCCESS) take_back(call);
  if (call.has_stream()) known_stream(call.stream());
  if (is_capture_error(call)) {
    for (const auto& capture : captures_harmed_by(call))
      capture->invalidated = true;
    if (call.verb() == Verb::capture_end) end_capture(call);
    return;
  }
  if (call.verb() == Verb::capture_end) return end_capture(call);
  if (const Handle ended = context_ended_by(call); ended != 0) end_context(call, ended);
  const bool records =
      call.verb() == Verb::event_record || call.verb() == Verb::work || call.verb() == Verb::context_record;
  if (records && !call.succeeded() && !is_external_outside_capture(call))
    for (const Handle event : call.events())
      if (event != 0) known_event(event).failed_record = call;
  if (call.verb() == Verb::exec_update)
    execs_[call.exec].failed_update = call.succeeded() ? std::nullopt : std::optional(call);
  if (!call.succeeded()) return;
  switch (call.verb()) {
  case Verb::event_create:
  case Verb::event_open:
    create_event(call);
    break;
  case Verb::event_destroy:
    known_event(call.event).destroyed = call;
    note_gone(Kind::event, {call.event}, known_event(call.event).number);
    break;
  case Verb::event_record:
  case Verb::context_record:
    record(call, call.event, call.stream());
    break;
  case Verb::event_export:
    known_event(call.event).shared = true;
    break;
  case Verb::stream_wait:
    wait(call);
    break;
  case Verb::stream_create:
  case Verb::stream_create_green: {
    if (StreamState* const old = find(streams_, call.stream())) order_.remove(*old);
    StreamState& made = make(streams_, call.stream(), call);
    made.flags = call.flags;
    if (call.verb() == Verb::stream_create_green) made.context = 0; // the one of the green context
    made.blocking = call.verb() == Verb::stream_create && (call.flags & CU_STREAM_NON_BLOCKING) == 0;
    break;
  }
  case Verb::stream_destroy: {
    StreamState& stream = known_stream(call.stream());
    stream.destroyed = call;
    if (stream.is_capturing() && stream.capture->origin() == call.stream())
      end_capture(*stream.capture); // nobody else will
    note_gone(Kind::stream, call.stream(), stream.number);
    break;
  }
  case Verb::capture_begin:
  case Verb::capture_into_graph:
    begin_capture(call);
    break;
  case Verb::exchange_mode:
    if (mode_of_thread_.size() >= threads_kept) mode_of_thread_.clear();
    mode_of_thread_[call.thread] = call.mode;
    if (call.mode == CU_STREAM_CAPTURE_MODE_GLOBAL) mode_of_thread_.erase(call.thread); // as threads begin
    break;
  case Verb::work:
  case Verb::value_wait:
  case Verb::value_write:
  case Verb::graph_launch:
    add_work(call);
    if (call.verb() == Verb::graph_launch) ++execs_[call.exec].launches;
    for (const Handle event : call.events())
      if (event != 0) record(call, event, call.stream());
    break;
  case Verb::context_create:
    make(contexts_, call.named_context, call).device = call.device;
    break;
  case Verb::primary_retain: {
    primary_[call.device].context = call.named_context;
    ++primary_[call.device].retained;
    ContextState& context = contexts_[call.named_context];
    if (!context.is_alive()) context = {};
    context.device = call.device;
    break;
  }
  case Verb::primary_release:
    if (Primary& primary = primary_[call.device]; primary.retained > 0 && --primary.retained == 0)
      primary.context = 0;
    break;
  default:
    apply_graph(call);
    break;
  }
}

// ---- Contexts ----

Handle World::context_ended_by(const Call& call) const {
  if (!call.succeeded()) return 0;
  if (call.verb() == Verb::context_destroy) return call.named_context;
  if (call.verb() != Verb::primary_release && call.verb() != Verb::device_reset) return 0;
  const auto primary = primary_.find(call.device);
  if (primary == primary_.end()) return 0;
  // The last release ends the context. After a reset it stays retained.
  return call.verb() == Verb::device_reset || primary->second.retained == 1 ? primary->second.context : 0;
}

/// The driver does not know a later use of an event or stream for what it is, if another context has the
/// handle then. Programs often destroy them later, which does no harm.
void World::end_context(const Call& call, Handle context) {
  if (ContextState& ended = contexts_[context]; call.verb() == Verb::context_destroy)
    ended.destroyed = call;
  else
    ended.context_end = call;
  note_gone(Kind::context, {context}, contexts_[context].number);
  std::vector<Gone> gone;
  for (auto& [handle, event] : events_) {
    if (event.context != context || !event.is_alive()) continue;
    event.context_end = call;
    gone.push_back({Kind::event, {handle}, event.number});
  }
  for (auto& [key, stream] : streams_) {
    if (stream.context != context) continue;
    if (stream.is_capturing() && stream.capture->origin() == key) end_capture(*stream.capture);
    if (!stream.is_alive()) continue;
    stream.context_end = call;
    gone.push_back({Kind::stream, key, stream.number});
  }
  for (const Gone& each : gone)
    note_gone(each.kind, each.key, each.number);
  order_.host_waits_for_context(0);
  // A new context with this handle has default streams too.
  for (auto stream = streams_.begin(); stream != streams_.end();)
    if (const auto each = stream++; each->first.context == context) erase_stream(each);
}

/// The call, or what it would use, was recorded before as if it would succeed, but it has failed.
void World::take_back(const Call& call) {
  const auto revive = [](auto& map, const auto& key) {
    if (auto* const object = find(map, key)) object->destroyed.reset();
  };
  switch (call.verb()) {
  case Verb::event_destroy:
    return revive(events_, call.event);
  case Verb::stream_destroy:
    return revive(streams_, call.stream());
  case Verb::exec_destroy:
    return revive(execs_, call.exec);
  case Verb::graph_destroy:
    return revive(graphs_, call.graph);
  case Verb::graph_instantiate:
  case Verb::exec_update:
    graphs_[call.graph].events.clear();
    return;
  case Verb::context_destroy:
    revive(contexts_, call.named_context);
    for (auto& [handle, event] : events_)
      if (event.context == call.named_context) event.context_end.reset();
    for (auto& [key, stream] : streams_)
      if (stream.context == call.named_context) stream.context_end.reset();
    return;
  default:
    return;
  }
}

// ---- Events ----

void World::create_event(const Call& call) {
  EventState& made = make(events_, call.event, call);
  made.flags = CU_EVENT_DISABLE_TIMING;
  if (call.verb() == Verb::event_create) made.flags = call.flags;
  made.shared = call.verb() == Verb::event_open || (made.flags & CU_EVENT_INTERPROCESS) != 0;
}

void World::record(const Call& call, Handle handle, const StreamKey& stream) {
  EventState& event = known_event(handle);
  event.failed_record.reset();
  event.record.reset();
  event.capture = nullptr;
  event.mark.reset();
  event.work.reset();
  ++event.records;
  if (call.verb() == Verb::event_record && (call.flags & CU_EVENT_RECORD_EXTERNAL) != 0) {
    put_in_graph(call);
    event.recorded_by_graph = true;
    return add_work(call);
  }
  event.record = call;
  event.sequence = ++last_record_;
  event.stream = stream;
  if (stream.handle == 0) return; // of a whole context
  StreamState& on = known_stream(stream);
  event.work_before = on.work;
  on.marked_work = on.work;
  if (!on.is_capturing()) return;
  event.capture = on.capture;
}

void World::wait(const Call& call) {
  if ((call.flags & CU_EVENT_WAIT_EXTERNAL) != 0) {
    put_in_graph(call);
    return add_work(call);
  }
  if (const EventState* const found = event(call.event)) join_capture(call.stream(), *found);
}

// ---- Graphs ----

/// A graph records the event of the call, or waits for it.
void World::put_in_graph(const Call& call) {
  if (call.event == 0) return; // a node of another kind
  EventState& event = known_event(call.event);
  event.put_in_graph = call;
  if (call.node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) event.recorded_by_graph = true;
}

/// A graph that no call has made may be the one of a capture that has not ended.
void World::change_captures(Handle graph) {
  const GraphState* const changed = find(graphs_, graph);
  if (changed != nullptr && changed->created && !changed->destroyed) return;
  for (const auto& capture : captures_)
    capture->is_known = false;
}

void World::apply_graph(const Call& call) {
  switch (call.verb()) {
  case Verb::graph_create:
    make(graphs_, call.made_graph, call);
    break;
  case Verb::graph_clone: {
    const auto capture = graphs_[call.graph].capture;
    make(graphs_, call.made_graph, call).capture = capture;
    break;
  }
  case Verb::graph_destroy:
    graphs_[call.graph].destroyed = call;
    note_gone(Kind::graph, {call.graph}, graphs_[call.graph].number);
    break;
  case Verb::graph_event: {
    EventState& event = known_event(call.event);
    if (call.node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) event.recorded_by_graph = true;
    graphs_[call.graph].events.push_back({call.node, call.event, event.number,
                                          call.node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                                          event.put_in_graph});
    break;
  }
  case Verb::graph_instantiate: {
    GraphState& graph = graphs_[call.graph];
    ExecState& made = make(execs_, call.exec, call);
    made.events = std::exchange(graph.events, {});
    made.capture = graph.capture;
    break;
  }
  case Verb::exec_destroy:
    execs_[call.exec].destroyed = call;
    note_gone(Kind::exec, {call.exec}, execs_[call.exec].number);
    break;
  case Verb::exec_update: { // the nodes of its first graph keep their places
    GraphState& graph = graphs_[call.graph];
    ExecState& exec = execs_[call.exec];
    exec.capture = graph.capture;
    const std::vector<EventNode> now = std::exchange(graph.events, {});
    if (exec.events.size() != now.size()) exec.events = now;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const Handle node = exec.events[i].node;
      exec.events[i] = now[i];
      exec.events[i].node = node;
    }
    break;
  }
  case Verb::node_add:
  case Verb::graph_change:
    change_captures(call.graph);
    break;
  case Verb::node_add_event:
    change_captures(call.graph);
    put_in_graph(call);
    break;
  case Verb::node_set_event:
    put_in_graph(call);
    break;
  case Verb::exec_set_event:
    put_in_graph(call);
    for (EventNode& node : execs_[call.exec].events)
      if (node.node == call.node && call.event != 0)
        node = {call.node, call.event, known_event(call.event).number, node.waits, call};
    break;
  default:
    break;
  }
}

} // namespace watch
