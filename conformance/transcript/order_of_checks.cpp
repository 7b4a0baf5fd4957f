// SPDX-License-Identifier: MIT
// Calls that are wrong in two ways: which error the driver gives.

#include "lab.hpp"

namespace transcript {
namespace {

constexpr unsigned unknown = 0x100;

// A stream whose capture is invalidated.
struct Invalidated {
  explicit Invalidated(Lab& laboratory) : lab(laboratory), stream(lab) {
    lab.must(lab.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.cu.StreamQuery(stream);
  }
  ~Invalidated() { end_capture(lab, stream); }
  Invalidated(const Invalidated&) = delete;
  Invalidated& operator=(const Invalidated&) = delete;
  Lab& lab;
  Stream stream;
};

// Makes the call next to a new capture of a blocking stream. The legacy stream is not usable then.
CUresult next_to_capture(Lab& lab, const std::function<CUresult()>& call) {
  Stream blocking(lab, CU_STREAM_DEFAULT);
  lab.must(lab.cu.StreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  const CUresult result = call();
  end_capture(lab, blocking);
  return result;
}

CUevent event_of_second_context(Lab& lab, unsigned flags) {
  const Current guard(lab, lab.second_context());
  return Event(lab, flags).release();
}

// An event that was recorded in a capture which is over.
CUevent event_of_finished_capture(Lab& lab) {
  Event event(lab);
  Stream stream(lab);
  lab.must(lab.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(lab.cu.EventRecord(event, stream), "record");
  lab.must(end_capture(lab, stream), "end");
  return event.release();
}

void record(Lab& lab) {
  const auto record = lab.cu.EventRecordWithFlags;
  Stream stream(lab);
  CUevent const other = event_of_second_context(lab, CU_EVENT_DISABLE_TIMING);
  {
    const Current none(lab, nullptr);
    lab.is("no_context.null_event", record(nullptr, nullptr, 0));
    lab.is("no_context.unknown_flags", record(other, nullptr, unknown));
  }
  {
    const Invalidated capture(lab);
    lab.is("invalidated.null_event", record(nullptr, capture.stream, 0));
    lab.is("invalidated.unknown_flags", record(other, capture.stream, unknown));
  }
  lab.is("next_to_capture.null_event",
         next_to_capture(lab, [&] { return record(nullptr, CU_STREAM_LEGACY, 0); }));
  lab.is("next_to_capture.unknown_flags",
         next_to_capture(lab, [&] { return record(other, CU_STREAM_LEGACY, unknown); }));
  lab.is("null_event.unknown_flags", record(nullptr, stream, unknown));
  lab.is("unknown_flags.other_context", record(other, stream, unknown));
  lab.is("unknown_flags.external", record(other, stream, unknown | CU_EVENT_RECORD_EXTERNAL));
  lab.is("external.other_context", record(other, stream, CU_EVENT_RECORD_EXTERNAL));
}

void wait(Lab& lab) {
  const auto wait = lab.cu.StreamWaitEvent;
  Stream stream(lab);
  CUevent const over = event_of_finished_capture(lab);
  {
    const Current none(lab, nullptr);
    lab.is("no_context.null_event", wait(nullptr, nullptr, 0));
    lab.is("no_context.unknown_flags", wait(nullptr, over, unknown));
  }
  {
    const Invalidated capture(lab);
    lab.is("invalidated.null_event", wait(capture.stream, nullptr, 0));
    lab.is("invalidated.unknown_flags", wait(capture.stream, over, unknown));
  }
  lab.is("next_to_capture.null_event",
         next_to_capture(lab, [&] { return wait(CU_STREAM_LEGACY, nullptr, 0); }));
  lab.is("next_to_capture.unknown_flags",
         next_to_capture(lab, [&] { return wait(CU_STREAM_LEGACY, over, unknown); }));
  lab.is("unknown_flags.null_event", wait(stream, nullptr, unknown));
  lab.is("unknown_flags.finished_capture", wait(stream, over, unknown));
  lab.is("null_event.external", wait(stream, nullptr, CU_EVENT_WAIT_EXTERNAL));
  lab.is("finished_capture.external", wait(stream, over, CU_EVENT_WAIT_EXTERNAL));
  {
    Stream origin(lab);
    lab.must(lab.cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.is("in_capture.finished_capture.external", wait(origin, over, CU_EVENT_WAIT_EXTERNAL));
    lab.shows("in_capture.finished_capture.external.then_capture", capture_state(lab, origin));
    end_capture(lab, origin);
  }
  Event captured(lab);
  Stream origin(lab);
  lab.must(lab.cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  {
    Stream broken(lab);
    lab.must(lab.cu.StreamBeginCapture(broken, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.must(lab.cu.EventRecord(captured, broken), "record");
    lab.cu.StreamQuery(broken);
    lab.is("in_capture.event_of_invalidated_capture", wait(origin, captured, 0));
    end_capture(lab, broken);
  }
  lab.shows("in_capture.event_of_invalidated_capture.then_capture", capture_state(lab, origin));
  end_capture(lab, origin);
}

void elapsed(Lab& lab) {
  const Api& cu = lab.cu;
  const auto of = [&](CUevent start, CUevent end) {
    float ms = 0;
    return cu.EventElapsedTime(&ms, start, end);
  };
  Stream held(lab), origin(lab);
  Event pending(lab, CU_EVENT_DEFAULT), never(lab, CU_EVENT_DEFAULT), untimed(lab);
  CUevent const over = event_of_finished_capture(lab);
  CUevent const other = event_of_second_context(lab, CU_EVENT_DEFAULT);
  {
    const Current second(lab, lab.second_context());
    Stream stream(lab);
    lab.must(cu.EventRecord(other, stream), "record");
    lab.must(cu.StreamSynchronize(stream), "synchronize");
  }
  Gate gate(lab, held);
  lab.must(cu.EventRecord(pending, held), "record");
  lab.is("start_untimed.end_null", of(untimed, nullptr));
  lab.is("start_null.end_of_finished_capture", of(nullptr, over));
  lab.is("start_of_finished_capture.end_null", of(over, nullptr));
  lab.is("start_never.end_of_finished_capture", of(never, over));
  lab.is("start_of_finished_capture.end_never", of(over, never));
  lab.is("start_pending.end_never", of(pending, never));
  lab.is("start_pending.end_of_finished_capture", of(pending, over));
  lab.is("start_pending.end_of_other_context", of(pending, other));
  lab.is("start_of_other_context.end_pending", of(other, pending));
}

void end_of_capture(Lab& lab) {
  const Api& cu = lab.cu;
  Event event(lab);
  const auto with_fork = [&](bool joined_work, bool invalidated,
                             const std::function<CUresult(CUstream, CUstream)>& end) {
    Stream origin(lab), fork(lab);
    lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin");
    lab.must(cu.EventRecord(event, origin), "record");
    lab.must(cu.StreamWaitEvent(fork, event, 0), "fork");
    if (!joined_work) lab.must(cu.StreamWriteValue32(fork, Lab::address(lab.word()), 1, 0), "work");
    if (invalidated) cu.StreamQuery(origin);
    const CUresult result = end(origin, fork);
    if (capture_state(lab, origin) != "none") end_capture(lab, origin);
    return result;
  };
  const auto here = [&](CUstream stream) { return end_capture(lab, stream); };
  const auto there = [&](CUstream stream) {
    return on_other_thread(lab, [&] { return end_capture(lab, stream); });
  };
  lab.is("fork.invalidated", with_fork(true, true, [&](CUstream, CUstream fork) { return here(fork); }));
  lab.is("fork.unjoined", with_fork(false, false, [&](CUstream, CUstream fork) { return here(fork); }));
  lab.is("fork.wrong_thread", with_fork(true, false, [&](CUstream, CUstream fork) { return there(fork); }));
  lab.is("invalidated.unjoined",
         with_fork(false, true, [&](CUstream origin, CUstream) { return here(origin); }));
  lab.is("invalidated.wrong_thread",
         with_fork(true, true, [&](CUstream origin, CUstream) { return there(origin); }));
  lab.is("unjoined.wrong_thread",
         with_fork(false, false, [&](CUstream origin, CUstream) { return there(origin); }));
  lab.is("wrong_thread", with_fork(true, false, [&](CUstream origin, CUstream) { return there(origin); }));
  lab.is("next_to_capture.not_capturing", next_to_capture(lab, [&] { return here(CU_STREAM_LEGACY); }));
}

void memory_operations(Lab& lab) {
  const Api& cu = lab.cu;
  const CUdeviceptr word = Lab::address(lab.word());
  Stream stream(lab);
  lab.is("write.no_memory_barrier",
         cu.StreamWriteValue32(stream, word, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  lab.is("write.unknown_flags", cu.StreamWriteValue32(stream, word, 1, unknown));
  lab.is("wait.unknown_flags", cu.StreamWaitValue32(stream, word, 1, unknown));
  {
    const Invalidated capture(lab);
    lab.is("invalidated.write.unknown_flags", cu.StreamWriteValue32(capture.stream, word, 1, unknown));
    lab.is("invalidated.wait.unknown_flags", cu.StreamWaitValue32(capture.stream, word, 1, unknown));
  }
  Stream origin(lab);
  lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("in_capture.write.no_memory_barrier",
         cu.StreamWriteValue32(origin, word, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  lab.is("in_capture.write.unknown_flags", cu.StreamWriteValue32(origin, word, 1, unknown));
  lab.shows("in_capture.write.then_capture", capture_state(lab, origin));
  end_capture(lab, origin);
}

void create_and_begin(Lab& lab) {
  const Api& cu = lab.cu;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  {
    const Current none(lab, nullptr);
    lab.is("no_context.event_flags", cu.EventCreate(&event, unknown));
    lab.is("no_context.event_interprocess_timed", cu.EventCreate(&event, CU_EVENT_INTERPROCESS));
    lab.is("no_context.event_null", cu.EventCreate(nullptr, 0));
    lab.is("no_context.stream_flags", cu.StreamCreate(&stream, 0x10));
    lab.is("no_context.begin_mode", cu.StreamBeginCapture(nullptr, static_cast<CUstreamCaptureMode>(3)));
    lab.is("no_context.begin", cu.StreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
    lab.is("no_context.destroy_legacy", cu.StreamDestroy(CU_STREAM_LEGACY));
    lab.is("no_context.destroy_per_thread", cu.StreamDestroy(CU_STREAM_PER_THREAD));
    lab.is("no_context.destroy_null", cu.StreamDestroy(nullptr));
  }
  lab.is("destroy_legacy", cu.StreamDestroy(CU_STREAM_LEGACY));
  lab.is("destroy_per_thread", cu.StreamDestroy(CU_STREAM_PER_THREAD));
}

// Calls with a null handle, or a default stream, next to a capture.
void graphs(Lab& lab) {
  const Api& cu = lab.cu;
  Event event(lab);
  const auto next_to = [&](const char* name, CUstreamCaptureMode mode, unsigned flags,
                           const std::function<CUresult(CUstream)>& call) {
    Stream origin(lab, flags);
    lab.must(cu.StreamBeginCapture(origin, mode), "begin");
    lab.is(name, call(origin));
    lab.shows(std::string(name) + ".then_capture", capture_state(lab, origin));
    end_capture(lab, origin);
  };
  const auto instantiate = [&](CUstream) {
    CUgraphExec exec = nullptr;
    return cu.GraphInstantiateWithFlags(&exec, nullptr, 0);
  };
  unsigned long long id = 0;
  constexpr auto global = CU_STREAM_CAPTURE_MODE_GLOBAL, relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  next_to("instantiate_null.global", global, CU_STREAM_NON_BLOCKING, instantiate);
  next_to("instantiate_null.relaxed", relaxed, CU_STREAM_NON_BLOCKING, instantiate);
  next_to("launch_null.into_capture", relaxed, CU_STREAM_NON_BLOCKING,
          [&](CUstream origin) { return cu.GraphLaunch(nullptr, origin); });
  for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    const bool blocking = flags == CU_STREAM_DEFAULT;
    next_to(blocking ? "launch_null.next_to_blocking" : "launch_null.next_to", relaxed, flags,
            [&](CUstream) { return cu.GraphLaunch(nullptr, nullptr); });
    next_to(blocking ? "stream_id.next_to_blocking" : "stream_id.next_to", relaxed, flags,
            [&](CUstream) { return cu.StreamGetId(CU_STREAM_LEGACY, &id); });
    next_to(blocking ? "stream_id_nowhere.next_to_blocking" : "stream_id_nowhere.next_to", relaxed, flags,
            [&](CUstream) { return cu.StreamGetId(CU_STREAM_LEGACY, nullptr); });
  }
  const Current none(lab, nullptr);
  lab.is("no_context.instantiate_null", instantiate(nullptr));
  lab.is("no_context.launch_null", cu.GraphLaunch(nullptr, nullptr));
  lab.is("no_context.stream_id", cu.StreamGetId(nullptr, &id));
  lab.is("no_context.stream_id_nowhere", cu.StreamGetId(nullptr, nullptr));
  lab.is("no_context.capture_state_nowhere", cu.StreamIsCapturing(nullptr, nullptr));
}

void modules(Lab& lab) {
  const auto load = [&](const char* image) {
    CUmodule module = nullptr;
    return lab.cu.ModuleLoadData(&module, image);
  };
  lab.is("null", load(nullptr));
  lab.is("garbage", load("garbage"));
  lab.is("empty", load(""));
  lab.is("new_version", load(".version 99.9\n.target sm_52\n.address_size 64\n"));
  lab.is("no_functions", load(".version 7.0\n.target sm_52\n.address_size 64\n"));
  const Current none(lab, nullptr);
  lab.is("no_context.garbage", load("garbage"));
  lab.is("no_context.null", load(nullptr));
}

// cuMemcpy takes memory of any kind.
void copies(Lab& lab) {
  const Api& cu = lab.cu;
  const CUdeviceptr word = Lab::address(lab.word());
  std::uint32_t first = 7, second = 0;
  const auto place = [](std::uint32_t& variable) { return reinterpret_cast<CUdeviceptr>(&variable); };
  Stream stream(lab);
  lab.is("from_pageable", cu.Memcpy(word, place(first), 4));
  lab.is("to_pageable", cu.Memcpy(place(second), word, 4));
  lab.shows("to_pageable.value", static_cast<int>(second));
  first = 8;
  lab.is("pageable", cu.Memcpy(place(second), place(first), 4));
  lab.shows("pageable.value", static_cast<int>(second));
  first = 9;
  lab.is("async.from_pageable", cu.MemcpyAsync(word, place(first), 4, stream));
  lab.is("async.to_pageable", cu.MemcpyAsync(place(second), word, 4, stream));
  lab.shows("async.to_pageable.value", static_cast<int>(second));
}

#if CUDA_VERSION >= 12050
void whole_context(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CtxRecordEvent == nullptr || cu.CtxWaitEvent == nullptr) return;
  CUevent const other = event_of_second_context(lab, CU_EVENT_DISABLE_TIMING);
  CUevent const over = event_of_finished_capture(lab);
  const auto in_capture = [&](const char* name, const std::function<CUresult()>& call) {
    Stream origin(lab);
    lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.is(name, call());
    lab.shows(std::string(name) + ".then_capture", capture_state(lab, origin));
    end_capture(lab, origin);
  };
  in_capture("in_capture.wait.null_event", [&] { return cu.CtxWaitEvent(lab.home, nullptr); });
  in_capture("in_capture.wait.finished_capture", [&] { return cu.CtxWaitEvent(lab.home, over); });
  in_capture("in_capture.record.null_event", [&] { return cu.CtxRecordEvent(lab.home, nullptr); });
  in_capture("in_capture.record.other_context", [&] { return cu.CtxRecordEvent(lab.home, other); });
}
#endif

#if CUDA_VERSION >= 12030
void launch(Lab& lab) {
  const CUfunction kernel = lab.kernel("step");
  CUevent const other = event_of_second_context(lab, CU_EVENT_DISABLE_TIMING);
  CUevent const other_timed = event_of_second_context(lab, CU_EVENT_DEFAULT);
  Event timed(lab, CU_EVENT_DEFAULT);
  const auto launch = [&](CUstream stream, CUevent event, unsigned flags) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    attribute.value.launchCompletionEvent.event = event;
    attribute.value.launchCompletionEvent.flags = static_cast<int>(flags);
    return lab.launch(kernel, stream, attribute);
  };
  Stream stream(lab);
  {
    const Invalidated capture(lab);
    lab.is("invalidated.null_event", launch(capture.stream, nullptr, 0));
    lab.is("invalidated.timed", launch(capture.stream, timed, 0));
  }
  lab.is("null_event.unknown_flags", launch(stream, nullptr, unknown));
  lab.is("unknown_flags.other_context", launch(stream, other, unknown));
  lab.is("external.other_context", launch(stream, other, CU_EVENT_RECORD_EXTERNAL));
  lab.is("external.timed", launch(stream, timed, CU_EVENT_RECORD_EXTERNAL));
  lab.is("other_context.timed", launch(stream, other_timed, 0));
}
#endif

} // namespace

std::vector<Scenario> order_of_checks_scenarios() {
  constexpr auto own = Place::child;
  return {
    {"order.record", record, own}, {"order.wait", wait, own}, {"order.elapsed", elapsed, own},
        {"order.end_of_capture", end_of_capture, own}, {"order.memory_operations", memory_operations, own},
        {"order.create_and_begin", create_and_begin, own}, {"order.graphs", graphs, own},
        {"order.modules", modules, own}, {"order.copies", copies, own},
#if CUDA_VERSION >= 12050
        {"order.whole_context", whole_context, own},
#endif
#if CUDA_VERSION >= 12030
        {"order.launch", launch, own},
#endif
  };
}

} // namespace transcript
