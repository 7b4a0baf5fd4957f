// SPDX-License-Identifier: MIT
// Events between devices, and their access to each other's memory.

#include "scene.hpp"

namespace transcript {
namespace {

struct Far {
  explicit Far(Lab& lab, int ordinal = 1) : lab_(lab) {
    CUdevice device = 0;
    CUcontext popped = nullptr;
    lab.must(lab.cu.DeviceGet(&device, ordinal), "cuDeviceGet");
    lab.must(lab.cu.CtxCreate(&context, 0, device), "cuCtxCreate");
    lab.must(lab.cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
  }
  ~Far() { lab_.cu.CtxDestroy(context); }
  Far(const Far&) = delete;
  Far& operator=(const Far&) = delete;
  CUcontext context = nullptr;

private:
  Lab& lab_;
};

bool second_primary_active(Lab& lab) {
  unsigned flags = 0;
  int active = -1;
  lab.must(lab.cu.DevicePrimaryCtxGetState(1, &flags, &active), "state");
  return active == 1;
}

void events(Lab& lab) {
  const Api& cu = lab.cu;
  Far far(lab);
  Stream stream(lab);
  Event start(lab, CU_EVENT_DEFAULT), event(lab);
  cu.EventRecord(start, stream);
  cu.EventRecord(event, stream);
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const Current guard(lab, far.context);
  Stream far_stream(lab);
  Event far_event(lab), far_end(lab, CU_EVENT_DEFAULT);
  lab.is("record", cu.EventRecord(event, far_stream));
  lab.is("record.reversed", cu.EventRecord(far_event, stream));
  lab.is("wait", cu.StreamWaitEvent(far_stream, event, 0));
  lab.is("wait.on_stream_0", cu.StreamWaitEvent(nullptr, event, 0));
  lab.is("record_end", cu.EventRecord(far_end, far_stream));
  lab.is("synchronize", cu.EventSynchronize(far_end));
  float ms = 0;
  lab.is("elapsed", cu.EventElapsedTime(&ms, start, far_end));
  lab.is("query_from_other_context", cu.EventQuery(event));
  Gate gate(lab, far_stream);
  cu.EventRecord(far_event, far_stream);
  lab.is("order.wait", cu.StreamWaitEvent(stream, far_event, 0));
  lab.is("order.before", cu.StreamQuery(stream));
  gate.open();
  lab.is("order.after", cu.StreamSynchronize(stream));
}

// No call with events of the first device activates the primary context of the second device.
void primary_context(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event event(lab);
  lab.shows("active.at_start", second_primary_active(lab));
  cu.EventRecord(event, stream);
  cu.EventQuery(event);
  cu.EventSynchronize(event);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cu.ThreadExchangeStreamCaptureMode(&mode);
  cu.ThreadExchangeStreamCaptureMode(&mode);
  on_other_thread(lab, [&] { return cu.EventQuery(event); });
  captures(lab, stream);
  lab.shows("active.after_calls", second_primary_active(lab));
}

void capture(Lab& lab) {
  const Api& cu = lab.cu;
  Far far(lab);
  const CUfunction kernel = [&] {
    const Current guard(lab, far.context);
    return lab.kernel("step");
  }();
  for (const Mode& mode : capture_modes) {
    const std::string name = mode.name;
    Scene s(lab, mode.value);
    CUcontext popped = nullptr;
    lab.must(cu.CtxPushCurrent(far.context), "push");
    {
      Stream far_stream(lab);
      Event done(lab), join(lab);
      cu.EventRecord(done, far_stream);
      lab.is(name + ".spread.wait", cu.StreamWaitEvent(far_stream, s.captured, 0));
      lab.shows(name + ".spread.far_stream", capture_state(lab, far_stream));
      lab.is(name + ".spread.launch",
             cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, far_stream, nullptr, nullptr));
      lab.is(name + ".spread.record", cu.EventRecord(join, far_stream));
      lab.is(name + ".spread.external_record",
             cu.EventRecordWithFlags(done, far_stream, CU_EVENT_RECORD_EXTERNAL));
      cu.EventRecord(join, far_stream);
      lab.is(name + ".spread.join", cu.StreamWaitEvent(s.origin, join, 0));
      show_end(s, name + ".spread");
      cu.CtxPopCurrent(&popped);
    }
  }
  for (const Mode& mode : capture_modes) {
    const std::string name = mode.name;
    CUevent done = nullptr;
    CUstream far_stream = nullptr;
    {
      const Current guard(lab, far.context);
      lab.must(cu.StreamCreate(&far_stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      lab.must(cu.EventCreate(&done, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
      cu.EventRecord(done, far_stream);
      lab.must(cu.StreamSynchronize(far_stream), "synchronize");
    }
    probe(lab, name + ".query_event_of_other_device", mode.value,
          [&](Scene&) { return cu.EventQuery(done); });
    probe(lab, name + ".external_wait_on_event_of_other_device", mode.value,
          [&](Scene& s) { return cu.StreamWaitEvent(s.origin, done, CU_EVENT_WAIT_EXTERNAL); });
    probe(lab, name + ".external_record_of_event_of_other_device", mode.value,
          [&](Scene& s) { return cu.EventRecordWithFlags(done, s.origin, CU_EVENT_RECORD_EXTERNAL); });
#if CUDA_VERSION >= 12050
    if (cu.CtxRecordEvent != nullptr) {
      probe(lab, name + ".ctx_record_event_of_other_device", mode.value,
            [&](Scene&) { return cu.CtxRecordEvent(far.context, done); });
    }
#endif
    cu.EventDestroy(done);
    cu.StreamDestroy(far_stream);
  }
}

void peer_access(Lab& lab) {
  const Api& cu = lab.cu;
  Far far(lab);
  lab.is("enable", cu.CtxEnablePeerAccess(far.context, 0));
  lab.is("enable.again", cu.CtxEnablePeerAccess(far.context, 0));
  lab.is("enable.again.flags", cu.CtxEnablePeerAccess(far.context, 1));
  lab.is("disable", cu.CtxDisablePeerAccess(far.context));
  lab.is("disable.again", cu.CtxDisablePeerAccess(far.context));
  lab.is("enable.flags", cu.CtxEnablePeerAccess(far.context, 1));
  lab.is("enable.itself", cu.CtxEnablePeerAccess(lab.home, 0));
  lab.is("enable.same_device", cu.CtxEnablePeerAccess(lab.second_context(), 0));
  {
    const Current none(lab, nullptr);
    lab.is("enable.no_context", cu.CtxEnablePeerAccess(far.context, 0));
  }
  for (const Mode& mode : capture_modes) {
    const std::string name = std::string("in_capture.") + mode.name;
    probe(lab, name + ".enable", mode.value, [&](Scene&) { return cu.CtxEnablePeerAccess(far.context, 0); });
    probe(lab, name + ".disable", mode.value, [&](Scene&) { return cu.CtxDisablePeerAccess(far.context); });
    cu.CtxDisablePeerAccess(far.context);
  }
  Stream stream(lab);
  Gate gate(lab, stream);
  Background enable(lab, [&] { return cu.CtxEnablePeerAccess(far.context, 0); });
  lab.shows("enable.returns_while_a_stream_is_held", enable.returns_within(std::chrono::seconds(1)));
  gate.open();
  lab.is("enable.while_a_stream_is_held", enable.join());
  lab.is("enable.null", cu.CtxEnablePeerAccess(nullptr, 0));
}

// What only a machine with three devices can answer.
void third(Lab& lab) {
  const Api& cu = lab.cu;
  Far second(lab), last(lab, 2);
  for (const auto& [from, to] : {std::pair{0, 2}, {1, 2}, {2, 0}, {2, 1}, {2, 2}}) {
    int can = -1;
    const std::string name = "can_access." + std::to_string(from) + "_" + std::to_string(to);
    lab.is(name, cu.DeviceCanAccessPeer(&can, from, to));
    lab.shows(name + ".value", can);
  }
  lab.is("enable.second", cu.CtxEnablePeerAccess(second.context, 0));
  lab.is("enable.third", cu.CtxEnablePeerAccess(last.context, 0));
  lab.is("disable.second", cu.CtxDisablePeerAccess(second.context));
  lab.is("enable.third.again", cu.CtxEnablePeerAccess(last.context, 0));
  lab.is("disable.second.again", cu.CtxDisablePeerAccess(second.context));

  CUdeviceptr of_second = 0, of_third = 0;
  Event done(lab);
  {
    const Current guard(lab, last.context);
    lab.is("enable.second_of_third", cu.CtxEnablePeerAccess(second.context, 0));
    lab.must(cu.MemAlloc(&of_third, 4096), "allocate");
    Stream stream(lab);
    Event own(lab);
    lab.is("record", cu.EventRecord(own, stream));
    lab.is("record.of_first", cu.EventRecord(done, stream));
    const Current other(lab, second.context);
    lab.must(cu.MemAlloc(&of_second, 4096), "allocate");
    Stream waiting(lab);
    lab.is("wait.on_second_for_third", cu.StreamWaitEvent(waiting, own, 0));
    lab.must(cu.StreamSynchronize(waiting), "synchronize");
  }
  // The current context is of the first device.
  lab.is("copy.peer", cu.MemcpyPeer(of_third, last.context, of_second, second.context, 4096));
  lab.is("copy.peer.contexts_swapped",
         cu.MemcpyPeer(of_third, second.context, of_second, last.context, 4096));
  lab.is("copy.unified", cu.MemcpyDtoD(of_third, of_second, 4096));
  lab.must(cu.CtxSynchronize(), "synchronize");
  lab.is("free.third", cu.MemFree(of_third));
  lab.is("free.second", cu.MemFree(of_second));
}

} // namespace

std::vector<Scenario> two_devices_scenarios() {
  return {{"two_devices.events", events, Place::child, 2},
          {"two_devices.primary", primary_context, Place::child, 2},
          {"two_devices.capture", capture, Place::child, 2},
          {"two_devices.peer_access", peer_access, Place::child, 2},
          {"two_devices.third", third, Place::probe, 3}};
}

} // namespace transcript
