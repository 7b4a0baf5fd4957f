// SPDX-License-Identifier: MIT
// What each call does to the order of the work.
#include "rules/work_kinds.hpp"
#include "rules/world.hpp"

namespace watch {

namespace {

/// The stream of a call that has none as an argument.
StreamKey default_stream_of(const Call& call) {
  return key_of((call.marks & per_thread) != 0 ? 2 : 1, call.context, call.thread);
}

} // namespace

void World::put_in_order(const Call& call) {
  order_.begin_call();
  if (call.verb() == Verb::memory_part) return put_memory_in_order(call);
  if (!call.is_of_the_program() || !call.succeeded()) return;
  switch (call.verb()) {
  case Verb::work:
  case Verb::value_wait:
  case Verb::value_write:
  case Verb::graph_launch:
  case Verb::capture_change:
  case Verb::stream_wait: {
    StreamState& on = known_stream(call.stream());
    if (on.is_capturing())
      put_in_capture(call, *on.capture);
    else
      put_on_stream(call, on);
    if (order_.point()) on.last_work = order_.point();
    if (call.verb() == Verb::work) mark_events(call);
    return;
  }
  case Verb::copy: {
    const StreamKey key = default_stream_of(call);
    StreamState& on = known_stream(key);
    submit(key, on, effects_of(call));
    on.last_work = order_.point();
    return;
  }
  case Verb::event_record:
  case Verb::context_record:
    return mark_events(call);
  case Verb::context_wait:
    return wait_in_context(call);
  case Verb::event_query:
  case Verb::event_synchronize:
  case Verb::event_elapsed: // which succeeds only if both are done
    for (const Handle event : call.events())
      if (event != 0) host_waits_for(event);
    return;
  case Verb::stream_query:
  case Verb::stream_synchronize:
    if (StreamState& on = known_stream(call.stream()); !on.is_capturing())
      order_.host_waits_for(call.stream(), on);
    return;
  case Verb::context_synchronize:
    return order_.host_waits_for_context(call.named_context);
  case Verb::memory_free:
    if (effects_of(call).waits_for_device) order_.host_waits_for_context(0);
    return;
  default:
    return;
  }
}

void World::put_on_stream(const Call& call, StreamState& on) {
  const StreamKey key = call.stream();
  switch (call.verb()) {
  case Verb::stream_wait: {
    const EventState* const event = find(events_, call.event);
    const bool is_unknown = event == nullptr || event->may_have_other_record();
    if (event != nullptr && event->mark && !event->capture)
      order_.wait(key, on, *event->mark, is_unknown ? Surety::possible : Surety::certain);
    on.waits_for_unknown |= is_unknown;
    if (is_unknown) order_.hold(key, on);
    return;
  }
  case Verb::value_wait:
    on.waits_for_unknown = true;
    return order_.hold(key, on);
  case Verb::graph_launch: {
    std::optional<OrderMark>& last = execs_[call.exec].last_launch;
    if (last) order_.wait(key, on, *last, Surety::certain);
    order_.submit(key, on, effects_of(call));
    last = order_.record(key, on);
    return;
  }
  case Verb::capture_change:
    return;
  default:
    return submit(key, on, effects_of(call));
  }
}

/// Green contexts share their memory and some of their order with a primary one. The World does not know
/// which contexts are green, so the order with other contexts is never certain.
void World::submit(const StreamKey& key, StreamState& on, const OrderEffects& effects) {
  constexpr Handle legacy = 1;
  if (key.handle != legacy || effects.contexts.empty()) return order_.submit(key, on, effects);
  for (const Handle context : effects.contexts) {
    const StreamKey there = key_of(legacy, context, 0);
    order_.wait(key, on, order_.record(there, known_stream(there)), Surety::possible);
  }
  order_.submit(key, on, effects);
  const OrderMark copied = order_.record(key, on);
  for (const Handle context : effects.contexts) {
    const StreamKey there = key_of(legacy, context, 0);
    order_.wait(there, known_stream(there), copied, Surety::possible);
  }
}

/// The World has put the node into the capture's order already.
void World::put_in_capture(const Call& call, Capture& capture) {
  switch (call.verb()) {
  case Verb::work:
  case Verb::value_write:
    return capture.effects.add(effects_of(call));
  case Verb::stream_wait:
    if (call.flags != 0) capture.is_known = false; // it waits for something outside
    return;
  default: // what is changed: the next node may come after any other one
    capture.is_known = false;
    return;
  }
}

/// What another thread does may come between this record and the one of the call itself.
void World::put_memory_in_order(const Call& call) {
  const auto part = static_cast<MemoryPart>(call.number);
  const bool tells_host = part == MemoryPart::told_host;
  const Handle handle = tells_host ? call.address : part == MemoryPart::freed ? call.value : 0;
  if (handle == 0) return;
  const StreamKey key = key_of(handle, call.context, call.thread);
  StreamState& on = known_stream(key);
  if (on.is_capturing()) return;
  const OrderMark mark = order_.record(key, on);
  if (tells_host) order_.host_waits_for(mark, Surety::possible);
}

void World::mark_events(const Call& call) {
  StreamState* const on = call.has_stream() ? &known_stream(call.stream()) : nullptr;
  for (const Handle handle : call.events()) {
    EventState* const event = handle != 0 ? find(events_, handle) : nullptr;
    if (event == nullptr || !event->record) continue; // a graph records it
    if (on == nullptr) { // of a context, perhaps a green one, whose streams are not known
      event->mark = order_.record_some();
    } else if (on->is_capturing()) {
      event->mark = on->capture->order.record(on->capture->number(call.stream()));
    } else {
      event->mark = order_.record(call.stream(), *on);
      event->work = on->last_work;
    }
  }
}

void World::wait_in_context(const Call& call) {
  const EventState* const event = find(events_, call.event);
  if (event == nullptr || event->may_have_other_record())
    for (auto& [key, stream] : streams_)
      if (stream.number_in_order) order_.hold(key, stream);
  if (event != nullptr && event->mark && !event->capture)
    order_.host_waits_for(*event->mark, Surety::possible); // later work of any stream may come after it
}

void World::host_waits_for(Handle handle) {
  const EventState* const event = find(events_, handle);
  if (event == nullptr || event->may_have_other_record()) return order_.host_waits_for_context(0);
  if (event->mark && !event->capture) order_.host_waits_for(*event->mark, Surety::certain);
}

/// Without records of memory, what the kind of work and the captured nodes tell.
const OrderEffects& World::effects_of(const Call& call) const {
  static const OrderEffects none, unknown{unknown_effects}, told{{true, true, false}}, waits{{}, true};
  if (effects_ != nullptr) return *effects_;
  switch (call.verb()) {
  case Verb::work:
    if (speaks_with_host(call.work())) return unknown;
    return is_opaque(call, {}) && !call.has(stays_on_device) ? told : none;
  case Verb::value_write:
  case Verb::copy:
    return told;
  case Verb::memory_free:
    return call.has(stays_on_device) ? none : waits;
  case Verb::graph_launch: {
    const ExecState* const replayed = exec(call.exec);
    const Capture* const capture = replayed != nullptr ? replayed->capture.get() : nullptr;
    const bool is_known = capture != nullptr && capture->is_known && !capture->into_graph;
    return is_known ? capture->effects : unknown;
  }
  default:
    return none;
  }
}

} // namespace watch
