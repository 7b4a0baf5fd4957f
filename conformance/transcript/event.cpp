// SPDX-License-Identifier: MIT
// One event: how it is made, what it answers in each of its states, and which record a wait refers to.

#include "lab.hpp"

namespace transcript {
namespace {

using namespace std::chrono_literals;

std::string hex(unsigned bits) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  do
    text.insert(text.begin(), digits[bits & 15]);
  while ((bits >>= 4) != 0);
  return "0x" + text;
}

void create(Lab& lab) {
  for (unsigned flags :
       {0x0u, 0x1u, 0x2u, 0x3u, 0x4u, 0x5u, 0x6u, 0x7u, 0x8u, 0x10u, 0x100u, 0x102u, 0x80000000u}) {
    CUevent event = nullptr;
    lab.is("flags_" + hex(flags), lab.cu.EventCreate(&event, flags));
    if (event != nullptr) lab.cu.EventDestroy(event);
  }
}

void flags(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event event(lab);
  for (unsigned bits : {0x0u, 0x1u, 0x2u, 0x3u, 0x100u}) {
    lab.is("record_" + hex(bits), cu.EventRecordWithFlags(event, stream, bits));
    lab.is("record_" + hex(bits) + ".stream_0", cu.EventRecordWithFlags(event, nullptr, bits));
    lab.is("record_" + hex(bits) + ".legacy", cu.EventRecordWithFlags(event, CU_STREAM_LEGACY, bits));
    lab.is("record_" + hex(bits) + ".per_thread", cu.EventRecordWithFlags(event, CU_STREAM_PER_THREAD, bits));
    lab.is("wait_" + hex(bits), cu.StreamWaitEvent(stream, event, bits));
    lab.is("wait_" + hex(bits) + ".stream_0", cu.StreamWaitEvent(nullptr, event, bits));
    lab.is("wait_" + hex(bits) + ".legacy", cu.StreamWaitEvent(CU_STREAM_LEGACY, event, bits));
    lab.is("wait_" + hex(bits) + ".per_thread", cu.StreamWaitEvent(CU_STREAM_PER_THREAD, event, bits));
  }
  Event fresh(lab, CU_EVENT_DEFAULT);
  float ms = 0;
  cu.EventRecordWithFlags(fresh, stream, CU_EVENT_RECORD_EXTERNAL);
  lab.is("refused_record_leaves_it_unrecorded", cu.EventElapsedTime(&ms, fresh, fresh));
  lab.is("wait_0x1.never_recorded", cu.StreamWaitEvent(stream, Event(lab), CU_EVENT_WAIT_EXTERNAL));
}

void null_handle(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event event(lab, CU_EVENT_DEFAULT);
  float ms = 0;
  CUipcEventHandle exported;
  lab.is("query", cu.EventQuery(nullptr));
  lab.is("synchronize", cu.EventSynchronize(nullptr));
  lab.is("record", cu.EventRecord(nullptr, stream));
  lab.is("record_external", cu.EventRecordWithFlags(nullptr, stream, CU_EVENT_RECORD_EXTERNAL));
  lab.is("record_unknown_flags", cu.EventRecordWithFlags(nullptr, stream, 0x100));
  lab.is("destroy", cu.EventDestroy(nullptr));
  lab.is("wait", cu.StreamWaitEvent(stream, nullptr, 0));
  lab.is("wait_external", cu.StreamWaitEvent(stream, nullptr, CU_EVENT_WAIT_EXTERNAL));
  lab.is("elapsed.start", cu.EventElapsedTime(&ms, nullptr, event));
  lab.is("elapsed.end", cu.EventElapsedTime(&ms, event, nullptr));
  lab.is("elapsed.both", cu.EventElapsedTime(&ms, nullptr, nullptr));
  lab.is("ipc_get_handle", cu.IpcGetEventHandle(&exported, nullptr));
#if CUDA_VERSION >= 12050
  if (cu.CtxRecordEvent != nullptr) {
    lab.is("ctx_record", cu.CtxRecordEvent(lab.home, nullptr));
    lab.is("ctx_wait", cu.CtxWaitEvent(lab.home, nullptr));
  }
#endif
}

void null_result(Lab& lab) {
  Event event(lab, CU_EVENT_DEFAULT);
  lab.is("create", lab.cu.EventCreate(nullptr, 0));
  lab.is("elapsed", lab.cu.EventElapsedTime(nullptr, event, event));
  lab.is("ipc_get_handle", lab.cu.IpcGetEventHandle(nullptr, event));
  lab.is("stream_get_ctx", lab.cu.StreamGetCtx(nullptr, nullptr));
  lab.is("stream_is_capturing", lab.cu.StreamIsCapturing(nullptr, nullptr));
}

// A null result in calls that do not check for it: seen to crash.
void null_result_unchecked(Lab& lab) {
  lab.is("exchange_mode", lab.cu.ThreadExchangeStreamCaptureMode(nullptr));
}

void never_recorded(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  for (unsigned bits : {0x0u, 0x1u, 0x2u, 0x6u}) {
    Event event(lab, bits);
    const std::string name = "flags_" + hex(bits);
    lab.is(name + ".query", cu.EventQuery(event));
    lab.is(name + ".synchronize", cu.EventSynchronize(event));
    lab.is(name + ".wait", cu.StreamWaitEvent(stream, event, 0));
    // Not immediately: the wait for an interprocess event goes to the device in this case too.
    lab.is(name + ".stream_query", eventually([&] { return cu.StreamQuery(stream); }));
  }
}

void pending(Lab& lab) {
  const Api& cu = lab.cu;
  for (unsigned bits : {0x0u, 0x1u, 0x2u, 0x6u}) {
    Stream stream(lab), waiter(lab);
    Event event(lab, bits), doomed(lab, bits);
    Gate gate(lab, stream);
    const std::string name = "flags_" + hex(bits);
    lab.is(name + ".record", cu.EventRecord(event, stream));
    cu.EventRecord(doomed, stream);
    lab.is(name + ".query", cu.EventQuery(event));
    lab.is(name + ".stream_query", cu.StreamQuery(stream));
    lab.is(name + ".wait", cu.StreamWaitEvent(waiter, event, 0));
    lab.is(name + ".waiter_query", cu.StreamQuery(waiter));
    lab.is(name + ".destroy_another_pending", cu.EventDestroy(doomed.release()));
    Background synchronize(lab, [&] { return cu.EventSynchronize(event); });
    lab.shows(name + ".synchronize.returns_while_pending", synchronize.returns_within(50ms));
    gate.open();
    lab.is(name + ".synchronize", synchronize.join());
    lab.is(name + ".query.afterwards", cu.EventQuery(event));
    lab.is(name + ".waiter.afterwards", cu.StreamSynchronize(waiter));
  }
}

void stream_destroyed(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event event(lab);
  Gate gate(lab, stream);
  cu.EventRecord(event, stream);
  lab.is("destroy", cu.StreamDestroy(stream.release()));
  lab.is("query", cu.EventQuery(event));
  gate.open();
  lab.is("query.in_the_end", eventually([&] { return cu.EventQuery(event); }));
  Stream another(lab);
  lab.is("wait", cu.StreamWaitEvent(another, event, 0));
  lab.is("record_again", cu.EventRecord(event, another));
}

// A wait keeps the record that it found, even if the event changes or goes.
void binding(Lab& lab) {
  const Api& cu = lab.cu;
  {
    Stream held(lab), free(lab), waiter(lab);
    Event event(lab);
    Gate gate(lab, held);
    cu.EventRecord(event, held);
    cu.StreamWaitEvent(waiter, event, 0);
    lab.is("to_pending.rerecord_elsewhere", cu.EventRecord(event, free));
    lab.is("to_pending.event", eventually([&] { return cu.EventQuery(event); }));
    lab.is("to_pending.waiter", cu.StreamQuery(waiter));
    gate.open();
    lab.is("to_pending.waiter.afterwards", cu.StreamSynchronize(waiter));
  }
  {
    Stream held(lab), free(lab), waiter(lab);
    Event event(lab);
    cu.EventRecord(event, free);
    cu.StreamSynchronize(free);
    cu.StreamWaitEvent(waiter, event, 0);
    Gate gate(lab, held);
    lab.is("to_done.rerecord_pending", cu.EventRecord(event, held));
    lab.is("to_done.event", cu.EventQuery(event));
    lab.is("to_done.waiter", eventually([&] { return cu.StreamQuery(waiter); }));
  }
  {
    Stream held(lab), waiter(lab);
    Event event(lab);
    Gate gate(lab, held);
    cu.EventRecord(event, held);
    cu.StreamWaitEvent(waiter, event, 0);
    lab.is("to_destroyed.destroy", cu.EventDestroy(event.release()));
    lab.is("to_destroyed.waiter", cu.StreamQuery(waiter));
    gate.open();
    lab.is("to_destroyed.waiter.afterwards", cu.StreamSynchronize(waiter));
  }
  {
    Stream first(lab), second(lab);
    Event event(lab);
    Gate gate(lab, first), second_gate(lab, second);
    cu.EventRecord(event, first);
    Background synchronize(lab, [&] { return cu.EventSynchronize(event); });
    lab.shows("of_synchronize.returns_while_pending", synchronize.returns_within(50ms));
    cu.EventRecord(event, second);
    gate.open();
    lab.shows("of_synchronize.returns_after_its_own_record", synchronize.returns_within(1s));
    lab.is("of_synchronize.event", cu.EventQuery(event));
    second_gate.open();
    lab.is("of_synchronize", synchronize.join());
  }
}

#if CUDA_VERSION >= 12050
void whole_context(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CtxRecordEvent == nullptr) return;
  Event event(lab), timed(lab, CU_EVENT_DEFAULT);
  Event shared(lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  lab.is("record.idle", cu.CtxRecordEvent(lab.home, event));
  lab.is("record.idle.query", eventually([&] { return cu.EventQuery(event); }));
  lab.is("record.timed", cu.CtxRecordEvent(lab.home, timed));
  lab.is("record.timed.synchronize", cu.EventSynchronize(timed));
  float ms = -1;
  lab.is("record.timed.elapsed", cu.EventElapsedTime(&ms, timed, timed));
  lab.is("record.interprocess", cu.CtxRecordEvent(lab.home, shared));
  lab.is("wait.never_recorded", cu.CtxWaitEvent(lab.home, Event(lab)));
  {
    Stream held(lab), later(lab);
    Gate gate(lab, held);
    lab.is("record.while_a_stream_is_held", cu.CtxRecordEvent(lab.home, event));
    lab.is("record.while_a_stream_is_held.query", cu.EventQuery(event));
    lab.is("record.does_not_hold_others", eventually([&] { return cu.StreamQuery(later); }));
    gate.open();
    lab.is("record.while_a_stream_is_held.synchronize", cu.EventSynchronize(event));
  }
  {
    Stream held(lab), waiter(lab);
    Gate gate(lab, held);
    Event after(lab);
    cu.EventRecord(event, held);
    lab.is("wait.pending", cu.CtxWaitEvent(lab.home, event));
    cu.EventRecord(after, waiter);
    lab.is("wait.pending.holds_a_stream", cu.EventQuery(after));
    Stream made_later(lab);
    cu.EventRecord(after, made_later);
    lab.is("wait.pending.holds_a_later_stream", eventually([&] { return cu.EventQuery(after); }));
    gate.open();
    lab.is("wait.pending.afterwards", cu.EventSynchronize(after));
    lab.is("wait.pending.waiter_afterwards", cu.StreamSynchronize(waiter));
  }
}
#else
void whole_context(Lab&) {}
#endif

} // namespace

std::vector<Scenario> event_scenarios() {
  return {{"event.create", create},
          {"event.flags", flags},
          {"event.null_handle", null_handle},
          {"event.null_result", null_result, Place::child},
          {"event.null_result_unchecked", null_result_unchecked, Place::alone},
          {"event.never_recorded", never_recorded},
          {"event.pending", pending},
          {"event.stream_destroyed", stream_destroyed},
          {"event.binding", binding},
          {"event.whole_context", whole_context}};
}

} // namespace transcript
