// SPDX-License-Identifier: MIT
// Green contexts, as far as they concern events.

#include "lab.hpp"

namespace transcript {
namespace {

#if CUDA_VERSION >= 12050
void events(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.GreenCtxCreate == nullptr || cu.GreenCtxStreamCreate == nullptr) return;
  CUcontext primary = nullptr;
  lab.must(cu.DevicePrimaryCtxRetain(&primary, lab.device), "retain");
  CUdevResource resource{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  lab.is("get_resource", cu.DeviceGetDevResource(lab.device, &resource, CU_DEV_RESOURCE_TYPE_SM));
  lab.is("generate_description", cu.DevResourceGenerateDesc(&description, &resource, 1));
  lab.is("create.no_flags", cu.GreenCtxCreate(&green, description, lab.device, 0));
  lab.is("create", cu.GreenCtxCreate(&green, description, lab.device, CU_GREEN_CTX_DEFAULT_STREAM));
  lab.is("ctx_from_green", cu.CtxFromGreenCtx(&context, green));
  lab.shows("ctx_from_green.is_primary", context == primary);

  CUstream stream = nullptr;
  lab.is("stream_create.blocking", cu.GreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0));
  lab.is("stream_create", cu.GreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  CUcontext of_stream = nullptr;
  lab.is("stream_get_ctx", cu.StreamGetCtx(stream, &of_stream));
  lab.shows("stream_get_ctx.is_green", of_stream == context);
  lab.shows("stream_get_ctx.is_primary", of_stream == primary);
  CUgreenCtx green_of_stream = nullptr;
  of_stream = nullptr;
  lab.is("stream_get_green_ctx", cu.StreamGetGreenCtx(stream, &of_stream, &green_of_stream));
  lab.shows("stream_get_green_ctx.is_green", green_of_stream == green);
  lab.shows("stream_get_green_ctx.has_context", of_stream != nullptr);
  Stream home_stream(lab);
  lab.is("stream_get_green_ctx.of_plain_stream",
         cu.StreamGetGreenCtx(home_stream, &of_stream, &green_of_stream));
  lab.shows("stream_get_green_ctx.of_plain_stream.is_green", green_of_stream != nullptr);

  CUevent primary_event = nullptr;
  CUstream primary_stream = nullptr;
  {
    const Current guard(lab, primary);
    lab.must(cu.EventCreate(&primary_event, CU_EVENT_DEFAULT), "cuEventCreate");
    lab.must(cu.StreamCreate(&primary_stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  Event home_event(lab);
  CUevent event = nullptr;
  float ms = 0;
  {
    const Current guard(lab, context);
    CUcontext current = nullptr;
    cu.CtxGetCurrent(&current);
    lab.shows("push.current_is_green", current == context);
    lab.is("event_create", cu.EventCreate(&event, CU_EVENT_DEFAULT));
    lab.is("record.stream_0", cu.EventRecord(event, nullptr));
    lab.is("record.legacy", cu.EventRecord(event, CU_STREAM_LEGACY));
    lab.is("record.per_thread", cu.EventRecord(event, CU_STREAM_PER_THREAD));
    lab.is("stream_get_ctx.legacy", cu.StreamGetCtx(CU_STREAM_LEGACY, &current));
    lab.shows("stream_get_ctx.legacy.is_green", current == context);
    unsigned long long id = 0;
    unsigned long long primary_id = 0;
    lab.is("ctx_get_id", cu.CtxGetId(context, &id));
    cu.CtxGetId(primary, &primary_id);
    lab.shows("ctx_get_id.is_that_of_primary", id == primary_id);
    lab.is("ctx_record_event", cu.CtxRecordEvent(context, event));
    lab.is("ctx_wait_event", cu.CtxWaitEvent(context, event));
  }
  lab.is("record", cu.EventRecord(event, stream));
  lab.is("synchronize", cu.EventSynchronize(event));
  lab.is("record.on_primary_stream", cu.EventRecord(event, primary_stream));
  lab.is("record.of_primary_event", cu.EventRecord(primary_event, stream));
  lab.is("wait.on_primary_stream", cu.StreamWaitEvent(primary_stream, event, 0));
  lab.is("synchronize.primary_event", cu.EventSynchronize(primary_event));
  lab.is("synchronize.green_event", cu.EventSynchronize(event));
  lab.is("elapsed_with_primary_event", cu.EventElapsedTime(&ms, event, primary_event));
  lab.is("record.of_another_contexts_event", cu.EventRecord(home_event, stream));
  lab.is("record.on_another_contexts_stream", cu.EventRecord(event, home_stream));
  lab.is("green_record", cu.GreenCtxRecordEvent(green, event));
  lab.is("green_record.synchronize", cu.EventSynchronize(event));
  lab.is("green_record.primary_event", cu.GreenCtxRecordEvent(green, primary_event));
  lab.is("green_record.another_contexts_event", cu.GreenCtxRecordEvent(green, home_event));
  lab.is("green_wait", cu.GreenCtxWaitEvent(green, event));
  lab.is("green_wait.another_contexts_event", cu.GreenCtxWaitEvent(green, home_event));
  {
    Gate gate(lab, stream);
    lab.is("green_record.held", cu.GreenCtxRecordEvent(green, event));
    lab.is("green_record.held.query", cu.EventQuery(event));
    lab.is("ctx_record_event.primary.while_green_is_held", cu.CtxRecordEvent(primary, primary_event));
    lab.is("ctx_record_event.primary.while_green_is_held.query",
           eventually([&] { return cu.EventQuery(primary_event); }));
    gate.open();
    lab.is("green_record.held.synchronize", cu.EventSynchronize(event));
  }
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("in_capture.green_record", cu.GreenCtxRecordEvent(green, event));
  lab.shows("in_capture.green_record.then_capture", capture_state(lab, stream));
  lab.is("in_capture.end", end_capture(lab, stream));
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("in_capture.green_wait", cu.GreenCtxWaitEvent(green, primary_event));
  lab.is("in_capture.green_wait.end", end_capture(lab, stream));
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("in_capture.external_record_of_primary_event",
         cu.EventRecordWithFlags(primary_event, stream, CU_EVENT_RECORD_EXTERNAL));
  lab.is("in_capture.external_record.end", end_capture(lab, stream));

  lab.is("stream_destroy", cu.StreamDestroy(stream));
  lab.is("green_destroy", cu.GreenCtxDestroy(green));
  lab.is("green_destroy.query", cu.EventQuery(event));
  lab.is("green_destroy.destroy_event", cu.EventDestroy(event));
}

// The streams of a green context, its default stream among them.
void streams(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.GreenCtxCreate == nullptr || cu.CtxFromGreenCtx == nullptr) return;
  const auto [primary, green, context] = Green(lab);
  const Current guard(lab, context);
  Stream stream(lab, CU_STREAM_DEFAULT);
  unsigned flags = 99;
  lab.is("get_flags", cu.StreamGetFlags(stream, &flags));
  lab.shows("get_flags.value", flags);
  const auto query = [&](CUevent event) { return eventually([&] { return cu.EventQuery(event); }); };
  {
    Event event(lab), of_default(lab), of_all(lab);
    Gate gate(lab, stream);
    lab.is("default_stream.record", cu.EventRecord(of_default, CU_STREAM_LEGACY));
    lab.is("default_stream.record.while_a_stream_is_held", query(of_default));
    gate.open();
    lab.must(cu.StreamSynchronize(stream), "synchronize");
    Gate second(lab, CU_STREAM_LEGACY);
    lab.must(cu.EventRecord(event, stream), "record");
    lab.is("record.while_the_default_stream_is_held", query(event));
    lab.is("green_record", cu.GreenCtxRecordEvent(green, of_all));
    lab.is("green_record.while_the_default_stream_is_held", query(of_all));
    second.open();
    lab.must(cu.StreamSynchronize(CU_STREAM_LEGACY), "synchronize");
  }
  {
    const Current home(lab, primary);
    Stream blocking(lab, CU_STREAM_DEFAULT);
    const Current back(lab, context);
    Event event(lab);
    Gate gate(lab, blocking);
    lab.must(cu.EventRecord(event, CU_STREAM_LEGACY), "record");
    lab.is("default_stream.while_a_stream_of_the_primary_context_is_held", query(event));
    gate.open();
  }
  lab.is("default_stream.begin", cu.StreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
  lab.shows("default_stream.capture", capture_state(lab, CU_STREAM_LEGACY));
  lab.is("default_stream.end", end_capture(lab, CU_STREAM_LEGACY));
}

// The flags of pinned memory that was allocated without flags: in each kind of context, small and large.
void host_flags(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.GreenCtxCreate == nullptr || cu.CtxFromGreenCtx == nullptr) return;
  const Green green(lab);
  const std::pair<std::string, CUcontext> contexts[] = {
      {"created", lab.home}, {"primary", green.primary}, {"green", green.context}};
  for (const auto& [name, context] : contexts)
    for (const std::size_t bytes : {std::size_t{256}, std::size_t{65536}}) {
      const Current guard(lab, context);
      void* memory = nullptr;
      unsigned flags = 77;
      lab.must(cu.MemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc");
      lab.must(cu.MemHostGetFlags(&flags, memory), "cuMemHostGetFlags");
      lab.shows(name + "." + std::to_string(bytes), flags);
    }
}
#else
void events(Lab&) {}
void streams(Lab&) {}
void host_flags(Lab&) {}
#endif

} // namespace

std::vector<Scenario> green_scenarios() {
  return {{"green.events", events, Place::child},
          {"green.streams", streams, Place::child},
          {"green.host_flags", host_flags, Place::child}};
}

} // namespace transcript
