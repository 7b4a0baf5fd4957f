// SPDX-License-Identifier: MIT
// How a capture fails, what each failure leaves behind, and what the events of a finished capture answer.

#include "scene.hpp"

namespace transcript {
namespace {

constexpr CUstreamCaptureMode thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

void begin_end(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUgraph graph = nullptr;
  lab.is("end_when_idle", end_capture(lab, stream));
  lab.is("begin", cu.StreamBeginCapture(stream, thread_local_mode));
  lab.is("end_empty", cu.StreamEndCapture(stream, &graph));
  lab.shows("end_empty.nodes", graph != nullptr ? node_types(lab, graph) : "no graph");
  cu.GraphDestroy(graph);
  lab.is("begin_nested.outer", cu.StreamBeginCapture(stream, thread_local_mode));
  lab.is("begin_nested", cu.StreamBeginCapture(stream, thread_local_mode));
  lab.is("begin_nested.then_end", end_capture(lab, stream));
  lab.is("begin_unknown_mode",
         cu.StreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(CU_STREAM_CAPTURE_MODE_RELAXED + 1)));
  lab.is("begin_stream_0", cu.StreamBeginCapture(nullptr, thread_local_mode));
  lab.is("begin_legacy", cu.StreamBeginCapture(CU_STREAM_LEGACY, thread_local_mode));
  lab.is("begin_per_thread", cu.StreamBeginCapture(CU_STREAM_PER_THREAD, thread_local_mode));
  lab.is("begin_per_thread.end", end_capture(lab, CU_STREAM_PER_THREAD));
  lab.is("end_stream_0", end_capture(lab, nullptr));
  lab.is("begin_on_held_stream", [&] {
    Stream held(lab);
    const Gate gate(lab, held);
    const CUresult result = cu.StreamBeginCapture(held, thread_local_mode);
    end_capture(lab, held);
    return result;
  }());
  lab.shows("captures_again", captures(lab, stream));
}

void destroy_capturing_stream(Lab& lab) {
  const Api& cu = lab.cu;
  for (const Mode& mode : capture_modes) {
    const std::string name = mode.name;
    Stream stream(lab), bystander(lab);
    Event captured(lab), event(lab);
    cu.EventRecord(event, bystander);
    lab.must(cu.StreamSynchronize(bystander), "synchronize");
    cu.StreamBeginCapture(stream, mode.value);
    cu.EventRecord(captured, stream);
    lab.is(name + ".destroy", cu.StreamDestroy(stream.release()));
    lab.is(name + ".then_query_outside_event", cu.EventQuery(event));
    lab.is(name + ".then_query_captured_event", cu.EventQuery(captured));
    lab.shows(name + ".captures_again", captures(lab, bystander));
  }
}

void modes(Lab& lab) {
  const auto exchange = [&lab](const char* name, CUstreamCaptureMode mode) {
    lab.is(name, lab.cu.ThreadExchangeStreamCaptureMode(&mode));
    lab.shows(std::string(name) + ".before", static_cast<int>(mode));
  };
  exchange("global_to_relaxed", CU_STREAM_CAPTURE_MODE_RELAXED);
  exchange("relaxed_to_thread_local", thread_local_mode);
  exchange("thread_local_to_unknown", static_cast<CUstreamCaptureMode>(CU_STREAM_CAPTURE_MODE_RELAXED + 1));
  exchange("back_to_global", CU_STREAM_CAPTURE_MODE_GLOBAL);
  exchange("global_to_global", CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode elsewhere = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstreamCaptureMode here = CU_STREAM_CAPTURE_MODE_RELAXED;
  lab.cu.ThreadExchangeStreamCaptureMode(&here);
  on_other_thread(lab, [&] { return lab.cu.ThreadExchangeStreamCaptureMode(&elsewhere); });
  lab.cu.ThreadExchangeStreamCaptureMode(&here);
  lab.shows("other_thread.before", static_cast<int>(elsewhere));
}

// What is needed to join a fork.
void joining(Lab& lab) {
  const auto scene = [&lab](const char* name, const std::function<void(Scene&)>& act) {
    Scene s(lab, thread_local_mode);
    act(s);
    show_end(s, name);
    lab.shows(std::string(name) + ".origin_afterwards", capture_state(lab, s.origin));
    lab.shows(std::string(name) + ".fork_afterwards", capture_state(lab, s.fork));
    lab.shows(std::string(name) + ".captures_again", captures(lab, s.origin) && captures(lab, s.fork));
  };
  const auto join = [](Scene& s) {
    Event event(s.lab);
    s.cu.EventRecord(event, s.fork);
    s.cu.StreamWaitEvent(s.origin, event, 0);
  };
  scene("no_work", [](Scene& s) { s.branch(false); });
  scene("no_work_but_recorded", [](Scene& s) {
    s.branch(false);
    Event event(s.lab);
    s.cu.EventRecord(event, s.fork);
  });
  scene("work", [](Scene& s) { s.branch(true); });
  scene("joined", [&](Scene& s) {
    s.branch(true);
    join(s);
  });
  scene("work_after_join", [&](Scene& s) {
    s.branch(true);
    join(s);
    s.launch(s.fork);
  });
  scene("external_record_only", [](Scene& s) {
    s.branch(false);
    s.cu.EventRecordWithFlags(s.done, s.fork, CU_EVENT_RECORD_EXTERNAL);
  });
  for (unsigned wait_flags : {0u, 1u}) {
    scene(wait_flags == 0 ? "external_record_then_wait" : "external_record_then_external_wait",
          [&](Scene& s) {
            s.branch(true);
            s.cu.EventRecordWithFlags(s.done, s.fork, CU_EVENT_RECORD_EXTERNAL);
            lab.is(wait_flags == 0 ? "external_record_then_wait" : "external_record_then_external_wait",
                   s.cu.StreamWaitEvent(s.origin, s.done, wait_flags));
          });
  }
  scene("join_event_recorded_again_elsewhere", [&](Scene& s) {
    s.branch(true);
    Event event(s.lab);
    s.cu.EventRecord(event, s.fork);
    s.cu.EventRecord(event, s.bystander);
    lab.is("join_event_recorded_again_elsewhere", s.cu.StreamWaitEvent(s.origin, event, 0));
  });
  scene("end_on_fork", [&](Scene& s) {
    s.branch(true);
    lab.is("end_on_fork", end_capture(lab, s.fork));
    lab.shows("end_on_fork.then_origin", capture_state(lab, s.origin));
    lab.shows("end_on_fork.then_fork", capture_state(lab, s.fork));
  });
  scene("destroy_fork_stream", [&](Scene& s) {
    s.branch(true);
    Stream another(lab);
    s.cu.StreamWaitEvent(another, s.captured, 0);
    s.launch(another);
    lab.is("destroy_fork_stream", s.cu.StreamDestroy(another.release()));
  });
}

void merge(Lab& lab) {
  const Api& cu = lab.cu;
  Stream first(lab), second(lab);
  Event event(lab);
  cu.StreamBeginCapture(first, thread_local_mode);
  cu.StreamBeginCapture(second, thread_local_mode);
  cu.EventRecord(event, first);
  lab.is("wait", cu.StreamWaitEvent(second, event, 0));
  lab.shows("wait.then_first", capture_state(lab, first));
  lab.shows("wait.then_second", capture_state(lab, second));
  lab.is("end_first", end_capture(lab, first));
  lab.is("end_second", end_capture(lab, second));
  lab.shows("captures_again", captures(lab, first) && captures(lab, second));

  cu.StreamBeginCapture(first, thread_local_mode);
  cu.StreamBeginCapture(second, thread_local_mode);
  cu.EventRecord(event, first);
  lab.is("record_in_the_other", cu.EventRecord(event, second));
  lab.is("record_in_the_other.wait_first", cu.StreamWaitEvent(second, event, 0));
  lab.is("external_wait", cu.StreamWaitEvent(first, event, CU_EVENT_WAIT_EXTERNAL));
  lab.is("external_wait.end_first", end_capture(lab, first));
  lab.is("external_wait.end_second", end_capture(lab, second));
}

void threads(Lab& lab) {
  for (const Mode& mode : capture_modes) {
    Scene s(lab, mode.value);
    const std::string name = std::string("end_elsewhere.") + mode.name;
    lab.is(name, on_other_thread(lab, [&] { return end_capture(lab, s.origin); }));
    lab.shows(name + ".then_capture", capture_state(lab, s.origin));
    lab.is(name + ".then_end_here", end_capture(lab, s.origin));
    lab.shows(name + ".captures_again", captures(lab, s.origin));
  }
  Stream stream(lab);
  lab.is("begin_elsewhere", on_other_thread(lab, [&] {
           return lab.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
         }));
  lab.shows("begin_elsewhere.seen_here_after_its_thread_ended", capture_state(lab, stream));
  lab.is("begin_elsewhere.end_here", end_capture(lab, stream));
  lab.is("begin_elsewhere.end_again", end_capture(lab, stream));
  Event event(lab);
  Stream other(lab);
  lab.cu.EventRecord(event, other);
  lab.is("begin_elsewhere.query_afterwards", eventually([&] { return lab.cu.EventQuery(event); }));
}

// Two captures at the same time: which of them a forbidden call invalidates.
void side_by_side(Lab& lab) {
  const Api& cu = lab.cu;
  Stream first(lab), second(lab), outside(lab);
  Event event(lab), captured(lab);
  cu.EventRecord(event, outside);
  lab.must(cu.StreamSynchronize(outside), "synchronize");
  for (const Mode& first_mode : capture_modes) {
    for (const Mode& second_mode : capture_modes) {
      const std::string name = std::string(first_mode.name) + "_and_" + second_mode.name;
      cu.StreamBeginCapture(first, first_mode.value);
      cu.StreamBeginCapture(second, second_mode.value);
      lab.is(name + ".query", cu.EventQuery(event));
      lab.is(name + ".end_first", end_capture(lab, first));
      lab.is(name + ".end_second", end_capture(lab, second));
    }
  }
  cu.StreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL);
  cu.StreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_GLOBAL);
  cu.EventRecord(captured, first);
  lab.is("captured_event.query", cu.EventQuery(captured));
  lab.is("captured_event.end_first", end_capture(lab, first));
  lab.is("captured_event.end_second", end_capture(lab, second));
  {
    const Current guard(lab, lab.second_context());
    Stream theirs(lab);
    cu.StreamBeginCapture(theirs, CU_STREAM_CAPTURE_MODE_GLOBAL);
    lab.is("capture_of_another_context.query", cu.EventQuery(event));
    lab.is("capture_of_another_context.end", end_capture(lab, theirs));
    Stream thread_local_one(lab);
    cu.StreamBeginCapture(thread_local_one, CU_STREAM_CAPTURE_MODE_RELAXED);
    lab.is("capture_of_another_context.ctx_record", [&] {
#if CUDA_VERSION >= 12050
      if (cu.CtxRecordEvent != nullptr) return cu.CtxRecordEvent(lab.home, event);
#endif
      return CUDA_ERROR_NOT_SUPPORTED;
    }());
    lab.is("capture_of_another_context.ctx_record.end", end_capture(lab, thread_local_one));
  }
}

// The events of a finished capture.
void afterwards(Lab& lab) {
  const Api& cu = lab.cu;
  for (const bool invalidated : {false, true}) {
    Scene s(lab, thread_local_mode);
    Event at_end(lab, CU_EVENT_DEFAULT);
    cu.EventRecord(at_end, s.origin);
    if (invalidated) cu.EventQuery(s.captured);
    float ms = 0;
    const std::string name = invalidated ? "of_invalidated_capture." : "of_ended_capture.";
    lab.is(name + "end", end_capture(lab, s.origin));
    lab.is(name + "query", cu.EventQuery(s.captured));
    lab.is(name + "synchronize", cu.EventSynchronize(s.captured));
    lab.is(name + "elapsed", cu.EventElapsedTime(&ms, s.captured, at_end));
    lab.is(name + "elapsed_from_done", cu.EventElapsedTime(&ms, s.done, s.captured));
    lab.is(name + "elapsed_itself", cu.EventElapsedTime(&ms, s.captured, s.captured));
    lab.is(name + "wait", cu.StreamWaitEvent(s.bystander, s.captured, 0));
    lab.is(name + "wait_external_flag", cu.StreamWaitEvent(s.bystander, s.captured, CU_EVENT_WAIT_EXTERNAL));
#if CUDA_VERSION >= 12050
    if (cu.CtxWaitEvent != nullptr) lab.is(name + "ctx_wait", cu.CtxWaitEvent(lab.home, s.captured));
#endif
    lab.is(name + "external.query", cu.EventQuery(s.external));
    lab.is(name + "external.synchronize", cu.EventSynchronize(s.external));
    lab.is(name + "external.elapsed", cu.EventElapsedTime(&ms, s.external, s.external));
    lab.is(name + "external.wait", cu.StreamWaitEvent(s.bystander, s.external, 0));
    cu.StreamBeginCapture(s.origin, thread_local_mode);
    lab.is(name + "wait_in_next_capture", cu.StreamWaitEvent(s.origin, s.captured, 0));
    lab.shows(name + "wait_in_next_capture.then_capture", capture_state(lab, s.origin));
    lab.is(name + "query_in_next_capture.thread_relaxed",
           in_mode(lab, CU_STREAM_CAPTURE_MODE_RELAXED, [&] { return cu.EventQuery(s.captured); }));
    lab.is(name + "next_capture.end", end_capture(lab, s.origin));
    lab.is(name + "rerecord", cu.EventRecord(s.captured, s.bystander));
    lab.is(name + "rerecord.query", eventually([&] { return cu.EventQuery(s.captured); }));
    lab.is(name + "rerecord.elapsed", cu.EventElapsedTime(&ms, s.done, s.captured));
    lab.is(name + "destroy", cu.EventDestroy(at_end.release()));
  }
}

// A plain record of an event that is pending outside the capture does not affect earlier waits for it.
void recorded_before(Lab& lab) {
  const Api& cu = lab.cu;
  Scene s(lab, CU_STREAM_CAPTURE_MODE_RELAXED); // in this mode the waiting stream may be queried
  Stream waiter(lab);
  cu.StreamWaitEvent(waiter, s.pending, 0);
  lab.is("record_pending_event", cu.EventRecord(s.pending, s.origin));
  lab.is("waiter_of_earlier_record", cu.StreamQuery(waiter));
  lab.is("record_pending_event.outside_again", cu.EventRecord(s.pending, s.bystander));
  s.gate.open();
  show_end(s, "record_pending_event");
  lab.is("waiter_of_earlier_record.afterwards", cu.StreamSynchronize(waiter));
}

} // namespace

std::vector<Scenario> capture_error_scenarios() {
  return {{"capture.begin_end", begin_end},
          {"capture.exchange_mode", modes},
          {"capture.joining", joining},
          {"capture.merge", merge},
          {"capture.threads", threads, Place::child},
          {"capture.destroy_capturing_stream", destroy_capturing_stream, Place::child},
          {"capture.side_by_side", side_by_side},
          {"capture.afterwards", afterwards},
          {"capture.recorded_before", recorded_before}};
}

} // namespace transcript
