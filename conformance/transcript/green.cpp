// SPDX-License-Identifier: MIT
// Green contexts, as far as they concern events.

#include "everywhere.hpp"

#include <chrono>
#include <cstring>
#include <thread>

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
unsigned word(const CUdevResource& resource, int number) { // 0: count, 1: least of a part, 2: alignment
  unsigned words[3];                                       // the older headers have no names for the last two
  std::memcpy(words, &resource.sm, sizeof words);
  return words[number];
}

struct Parts {
  explicit Parts(Lab& lab) {
    lab.must(lab.cu.DeviceGetDevResource(lab.device, &all, CU_DEV_RESOURCE_TYPE_SM),
             "cuDeviceGetDevResource");
    unsigned count = 2;
    result = lab.cu.DevSmResourceSplitByCount(part, &count, &all, &rest, 0, 16);
    groups = count;
  }
  CUdevResource all{}, part[2]{}, rest{};
  CUresult result = CUDA_SUCCESS;
  unsigned groups = 0;
};

std::pair<CUgreenCtx, CUcontext> green_of(Lab& lab, CUdevResource resource) {
  const Api& cu = lab.cu;
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  lab.must(cu.DevResourceGenerateDesc(&description, &resource, 1), "cuDevResourceGenerateDesc");
  lab.must(cu.GreenCtxCreate(&green, description, lab.device, CU_GREEN_CTX_DEFAULT_STREAM),
           "cuGreenCtxCreate");
  lab.must(cu.CtxFromGreenCtx(&context, green), "cuCtxFromGreenCtx");
  return {green, context};
}

// A green context has the part of the multiprocessors that it was made of.
void resources(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.GreenCtxCreate == nullptr) return;
  const Parts parts(lab);
  lab.shows("device.least", word(parts.all, 1));
  lab.shows("device.alignment", word(parts.all, 2));
  lab.is("split", parts.result);
  lab.shows("split.groups", parts.groups);
  lab.shows("split.part", word(parts.part[0], 0));
  lab.shows("split.rest_is_what_is_left", word(parts.rest, 0) == word(parts.all, 0) - 32);
  lab.shows("split.part.least", word(parts.part[0], 1));
  lab.shows("split.part.alignment", word(parts.part[0], 2));
  for (const int number : {0, 1}) {
    const std::string name = "part_" + std::to_string(number);
    const auto [green, context] = green_of(lab, parts.part[number]);
    CUdevResource got{};
    lab.is(name + ".of_green", cu.GreenCtxGetDevResource(green, &got, CU_DEV_RESOURCE_TYPE_SM));
    lab.shows(name + ".of_green.count", word(got, 0));
    lab.is(name + ".of_context", cu.CtxGetDevResource(context, &got, CU_DEV_RESOURCE_TYPE_SM));
    lab.shows(name + ".of_context.count", word(got, 0));
  }
}

// Splits of what a split returned, and what contexts have.
void more_resources(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.GreenCtxCreate == nullptr) return;
  const Parts parts(lab);
  const auto show = [&](const std::string& name, CUresult result, const CUdevResource& resource) {
    lab.is(name, result);
    if (result == CUDA_SUCCESS)
      lab.shows(name + ".words", std::to_string(word(resource, 0)) + " " + std::to_string(word(resource, 1)) +
                                     " " + std::to_string(word(resource, 2)));
  };
  show("rest", CUDA_SUCCESS, parts.rest);
  CUdevResource got{};
  show("home", cu.CtxGetDevResource(lab.home, &got, CU_DEV_RESOURCE_TYPE_SM), got);
  show("primary", cu.CtxGetDevResource(Green(lab).primary, &got, CU_DEV_RESOURCE_TYPE_SM), got);
  const auto ask = [&](const std::string& name, std::vector<CUdevResource> resources) {
    CUdevResourceDesc description = nullptr;
    CUgreenCtx green = nullptr;
    const auto count = static_cast<unsigned>(resources.size());
    lab.is(name + ".description", cu.DevResourceGenerateDesc(&description, resources.data(), count));
    if (description == nullptr) return;
    lab.is(name + ".create", cu.GreenCtxCreate(&green, description, lab.device, CU_GREEN_CTX_DEFAULT_STREAM));
    if (green != nullptr) show(name, cu.GreenCtxGetDevResource(green, &got, CU_DEV_RESOURCE_TYPE_SM), got);
  };
  ask("of.one", {parts.part[0]});
  ask("of.rest", {parts.rest});
  ask("of.both", {parts.part[0], parts.part[1]});
  ask("of.all", {parts.all});
  const std::pair<std::string, CUdevResource> inputs[] = {
      {"all", parts.all}, {"part", parts.part[0]}, {"rest", parts.rest}};
  for (const auto& [name, input] : inputs)
    for (const unsigned least : {0u, 1u, 8u, 9u, 16u, 1000u}) {
      CUdevResource part[2]{}, rest{};
      const std::string question = "split." + name + ".by_" + std::to_string(least);
      unsigned possible = 77, groups = 2;
      lab.is(question + ".possible",
             cu.DevSmResourceSplitByCount(nullptr, &possible, &input, nullptr, 0, least));
      lab.shows(question + ".possible.groups", possible);
      show(question, cu.DevSmResourceSplitByCount(part, &groups, &input, &rest, 0, least), part[0]);
      lab.shows(question + ".groups", groups);
      show(question + ".rest", CUDA_SUCCESS, rest);
    }
}

// What a wait of a green context holds, in it and elsewhere: for an event of each context, by a caller in
// each, before and after the first record on the default stream of the green context.
void waits(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab);
  const std::pair<const char*, CUcontext> contexts[] = {
      {"primary", green.primary}, {"green", green.context}, {"second", lab.second_context()}};
  for (const char* const when : {"unused", "used"}) {
    if (when == std::string_view("used")) {
      const Current there(lab, green.context);
      Event done(lab);
      lab.must(cu.EventRecord(done, CU_STREAM_LEGACY), "record");
      lab.must(cu.CtxSynchronize(), "synchronize");
    }
    for (const auto& [owner_name, owner] : contexts)
      for (const auto& [caller_name, caller] : contexts) {
        const Current there(lab, owner);
        Stream held(lab);
        Event awaited(lab);
        Gate gate(lab, held);
        lab.must(cu.EventRecord(awaited, held), "record");
        const Current here(lab, caller);
        std::vector<std::string> parts{lab.name_of(cu.CtxWaitEvent(green.context, awaited))};
        for (const auto& [asked_name, asked] : contexts) {
          const Current inside(lab, asked);
          Stream blocking(lab, CU_STREAM_DEFAULT);
          Event of_default(lab), of_blocking(lab);
          lab.must(cu.EventRecord(of_default, CU_STREAM_LEGACY), "record");
          lab.must(cu.EventRecord(of_blocking, blocking), "record");
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          parts.push_back(std::string(asked_name) + " " +
                          (cu.EventQuery(of_default) == CUDA_SUCCESS ? "+" : "-") +
                          (cu.EventQuery(of_blocking) == CUDA_SUCCESS ? "+" : "-"));
        }
        gate.open();
        for (const auto& [name, context] : contexts) {
          const Current inside(lab, context);
          lab.must(cu.CtxSynchronize(), "synchronize");
        }
        lab.shows(std::string(when) + ".event_of_" + owner_name + ".called_in_" + caller_name, joined(parts));
      }
  }
}

// A wait of a green context for an event of a context of another family: whether it holds streams that are
// there already or made later, before and after their first work, and another green context.
void foreign_waits(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab), sibling(lab);
  const CUcontext second = lab.second_context();
  for (const char* const use : {"nothing_used", "blocking_used", "legacy_used"})
    for (const bool destroyed : {true, false}) {
      const Current outside(lab, second);
      Stream held(lab);
      CUevent awaited = nullptr;
      lab.must(cu.EventCreate(&awaited, CU_EVENT_DISABLE_TIMING), "event");
      const Current here(lab, green.primary);
      Stream alone(lab), used(lab), blocking(lab, CU_STREAM_DEFAULT);
      const auto work_on = [&](CUstream on) {
        lab.must(cu.StreamWriteValue32(on, Lab::address(lab.word()), 1, 0), "write");
        lab.must(cu.StreamSynchronize(on), "synchronize");
      };
      work_on(used);
      if (use == std::string_view("blocking_used")) work_on(blocking);
      if (use == std::string_view("legacy_used")) work_on(CU_STREAM_LEGACY);
      Gate gate(lab, held);
      lab.must(cu.EventRecord(awaited, held), "record");
      lab.must(cu.CtxWaitEvent(green.context, awaited), "wait");
      if (destroyed) lab.must(cu.EventDestroy(awaited), "destroy");
      std::vector<std::string> parts;
      const auto ask = [&](const char* name, CUstream on) {
        Event event(lab);
        lab.must(cu.EventRecord(event, on), "record");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        parts.push_back(std::string(name) + (cu.EventQuery(event) == CUDA_SUCCESS ? " +" : " -"));
      };
      Stream later(lab);
      ask("alone", alone);
      ask("used", used);
      ask("later", later);
      {
        const Current inside(lab, sibling.context);
        Stream stream(lab);
        ask("sibling", stream);
      }
      ask("blocking", blocking);
      ask("legacy", CU_STREAM_LEGACY);
      ask("alone again", alone);
      gate.open();
      lab.must(cu.StreamSynchronize(held), "synchronize");
      lab.must(cu.CtxSynchronize(), "synchronize");
      if (!destroyed) lab.must(cu.EventDestroy(awaited), "destroy");
      lab.shows(std::string(use) + (destroyed ? ".destroyed" : ".kept"), joined(parts));
    }
}

// Whether a record of a context comes after a stream that only waits: for the event that is recorded, for
// another one of the family, and for one of another context.
void records_of_waits(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab);
  const std::pair<const char*, CUcontext> contexts[] = {
      {"primary", green.primary}, {"green", green.context}, {"home", lab.home}};
  for (const auto& [name, context] : contexts)
    for (const unsigned flags : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT})
      for (const bool timed : {false, true})
        for (const char* const which : {"the_same", "another", "foreign"}) {
          const bool same = which == std::string_view("the_same"),
                     foreign = which == std::string_view("foreign");
          const Current here(lab, context);
          Stream waiting(lab, flags);
          Event event(lab, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
          const Current there(lab, foreign               ? lab.second_context()
                                   : context == lab.home ? lab.home
                                                         : green.primary);
          Stream held(lab);
          Event other(lab);
          Gate gate(lab, held);
          const CUevent awaited = same ? event : other;
          lab.must(cu.EventRecord(awaited, held), "record");
          const Current back(lab, context);
          lab.must(cu.StreamWaitEvent(waiting, awaited, 0), "wait");
          const std::string result = lab.name_of(cu.CtxRecordEvent(context, event));
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          lab.shows(std::string(name) + (flags == CU_STREAM_DEFAULT ? ".blocking" : ".alone") +
                        (timed ? ".timed." : ".") + which,
                    joined({result, cu.EventQuery(event) == CUDA_SUCCESS ? "done" : "pending"}));
          gate.open();
          lab.must(cu.StreamSynchronize(held), "synchronize");
          lab.must(cu.StreamSynchronize(waiting), "synchronize");
          lab.must(cu.CtxSynchronize(), "synchronize");
        }
}
#else
void waits(Lab&) {}
void foreign_waits(Lab&) {}
void records_of_waits(Lab&) {}
void resources(Lab&) {}
void more_resources(Lab&) {}
void events(Lab&) {}
void streams(Lab&) {}
void host_flags(Lab&) {}
#endif

} // namespace

std::vector<Scenario> green_scenarios() {
  return {{"green.events", events, Place::child},
          {"green.streams", streams, Place::child},
          {"green.host_flags", host_flags, Place::child},
          {"green.waits", waits, Place::child},
          {"green.foreign_waits", foreign_waits, Place::child},
          {"green.records_of_waits", records_of_waits, Place::child},
          {"green.resources", resources, Place::child},
          {"green.more_resources", more_resources, Place::child}};
}

} // namespace transcript
