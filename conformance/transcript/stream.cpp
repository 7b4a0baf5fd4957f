// SPDX-License-Identifier: MIT
// Streams as far as they concern events: how they are made, which context they belong to, which wait for the
// legacy stream; a full launch queue.

#include "lab.hpp"

#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <utility>

namespace transcript {
namespace {

using namespace std::chrono_literals;

void create(Lab& lab) {
  const Api& cu = lab.cu;
  for (unsigned flags : {0u, 1u, 2u, 3u, 0x100u}) {
    CUstream stream = nullptr;
    lab.is("flags_" + std::to_string(flags), cu.StreamCreate(&stream, flags));
    if (stream != nullptr) cu.StreamDestroy(stream);
  }
  for (int priority : {-100, 0, 100}) {
    CUstream stream = nullptr;
    lab.is("priority_" + std::to_string(priority),
           cu.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority));
    if (stream != nullptr) cu.StreamDestroy(stream);
  }
}

void identity(Lab& lab) {
  const Api& cu = lab.cu;
  Stream first(lab), second(lab);
  std::set<unsigned long long> ids;
  const auto id = [&](CUstream stream) {
    unsigned long long value = 0;
    lab.must(cu.StreamGetId(stream, &value), "cuStreamGetId");
    return value;
  };
  for (CUstream stream : {CUstream(first), CUstream(second), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
    ids.insert(id(stream));
  lab.shows("different_ids", ids.size());
  lab.shows("stream_0_is_legacy", id(nullptr) == id(CU_STREAM_LEGACY));
  const unsigned long long old = id(first);
  cu.StreamDestroy(first.release());
  Stream third(lab);
  lab.shows("id_is_used_again", id(third) == old);
  unsigned long long here = id(CU_STREAM_PER_THREAD);
  unsigned long long there = 0;
  on_other_thread(lab, [&] { return cu.StreamGetId(CU_STREAM_PER_THREAD, &there); });
  lab.shows("per_thread_id_differs_by_thread", here != there);
  here = id(CU_STREAM_LEGACY);
  const Current other(lab, lab.second_context());
  lab.shows("legacy_id_differs_by_context", here != id(CU_STREAM_LEGACY));
}

// Which streams wait for the legacy stream, and for which streams it waits.
void legacy(Lab& lab) {
  const Api& cu = lab.cu;
  Stream blocking(lab, CU_STREAM_DEFAULT), non_blocking(lab);
  struct Case {
    const char* name;
    CUstream held, other;
  };
  for (const auto& [name, held, other] : {Case{"legacy_then_blocking", CU_STREAM_LEGACY, blocking},
                                          {"legacy_then_non_blocking", CU_STREAM_LEGACY, non_blocking},
                                          {"legacy_then_per_thread", CU_STREAM_LEGACY, CU_STREAM_PER_THREAD},
                                          {"stream_0_then_blocking", nullptr, blocking},
                                          {"blocking_then_legacy", blocking, CU_STREAM_LEGACY},
                                          {"non_blocking_then_legacy", non_blocking, CU_STREAM_LEGACY},
                                          {"per_thread_then_legacy", CU_STREAM_PER_THREAD, CU_STREAM_LEGACY},
                                          {"blocking_then_per_thread", blocking, CU_STREAM_PER_THREAD}}) {
    Event event(lab);
    Gate gate(lab, held);
    cu.EventRecord(event, other);
    std::this_thread::sleep_for(20ms);
    lab.is(name, cu.EventQuery(event));
    gate.open();
    lab.is(std::string(name) + ".afterwards", cu.EventSynchronize(event));
    lab.must(cu.CtxSynchronize(), "synchronize");
  }
  CUcontext context = nullptr;
  lab.is("get_ctx", cu.StreamGetCtx(CU_STREAM_LEGACY, &context));
  lab.shows("get_ctx.is_current", context == lab.home);
}

// The same functions, requested with the per-thread default stream: stream 0 is then that stream.
void per_thread_functions(Lab& lab) {
  const auto resolve = [&lab](const char* name, int version, auto& function) {
    void* address = nullptr;
    lab.must(lab.cu.GetProcAddress(name, &address, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                                   nullptr),
             name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  PFN_cuEventRecord_v2000 record = nullptr;
  PFN_cuStreamWaitEvent_v3020 wait = nullptr;
  PFN_cuStreamIsCapturing_v10000 is_capturing = nullptr;
  resolve("cuEventRecord", 12000, record);
  resolve("cuStreamWaitEvent", 12000, wait);
  resolve("cuStreamIsCapturing", 12000, is_capturing);

  Event event(lab);
  lab.is("record.stream_0", record(event, nullptr));
  lab.is("wait.stream_0", wait(nullptr, event, 0));
  lab.must(lab.cu.StreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  CUstreamCaptureStatus status{};
  lab.is("is_capturing.stream_0", is_capturing(nullptr, &status));
  lab.shows("is_capturing.stream_0.active", status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  lab.is("is_capturing.legacy", is_capturing(CU_STREAM_LEGACY, &status));
  lab.is("record.stream_0.in_capture", record(event, nullptr));
  lab.is("end", end_capture(lab, CU_STREAM_PER_THREAD));
  lab.is("query", lab.cu.EventQuery(event));
}

void destroy_default(Lab& lab) {
  lab.is("stream_0", lab.cu.StreamDestroy(nullptr));
  lab.is("legacy", lab.cu.StreamDestroy(CU_STREAM_LEGACY));
  lab.is("per_thread", lab.cu.StreamDestroy(CU_STREAM_PER_THREAD));
}

// A stream takes a limited number of submissions that cannot run yet. The next one blocks its thread in the
// driver, and so do some calls on other threads.
// A thread that submits to a held stream until it is blocked.
struct Filler {
  Filler(Lab& lab, const std::function<CUresult()>& submit)
      : thread(lab, [this, submit] {
          CUresult result = CUDA_SUCCESS;
          for (; submitted < 8192 && result == CUDA_SUCCESS; ++submitted)
            result = submit();
          return result;
        }) {
    for (int before = -1; before != submitted && !thread.returns_within(0ms);) {
      before = submitted;
      std::this_thread::sleep_for(300ms);
    }
  }
  bool blocked() const { return !thread.returns_within(0ms); }

  std::atomic<int> submitted = 0;
  Background thread;
};

void full_queue(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction nothing = lab.kernel("step");
  Stream full(lab), other(lab);
  Event done(lab, CU_EVENT_DEFAULT), pending(lab), doomed(lab);
  cu.EventRecord(done, other);
  lab.must(cu.StreamSynchronize(other), "synchronize");
  Gate gate(lab, full);
  cu.EventRecord(pending, full);
  Filler filler(lab, [&] { return cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, full, nullptr, nullptr); });
  lab.shows("a_submission_blocks", filler.blocked());
  lab.shows("between_900_and_1100_submissions", filler.submitted > 900 && filler.submitted < 1100);

  CUcontext context = nullptr;
  float ms = 0;
  const std::pair<const char*, std::function<CUresult()>> free_calls[] = {
      {"query.pending", [&] { return cu.EventQuery(pending); }},
      {"query.done", [&] { return cu.EventQuery(done); }},
      {"synchronize.done", [&] { return cu.EventSynchronize(done); }},
      {"elapsed", [&] { return cu.EventElapsedTime(&ms, done, done); }},
      {"record_elsewhere", [&] { return cu.EventRecord(done, other); }},
      {"wait_elsewhere", [&] { return cu.StreamWaitEvent(other, done, 0); }},
      {"get_current", [&] { return cu.CtxGetCurrent(&context); }},
      {"push", [&] { return cu.CtxPushCurrent(lab.home); }},
      {"stream_get_ctx", [&] { return cu.StreamGetCtx(other, &context); }},
      {"stream_query_elsewhere", [&] { return eventually([&] { return cu.StreamQuery(other); }); }},
  };
  for (const auto& [name, call] : free_calls) {
    Background attempt(lab, call);
    const bool returns = attempt.returns_within(1s);
    lab.shows(std::string(name) + ".returns", returns);
    if (!returns) gate.open();
    lab.is(name, attempt.join());
  }
  CUevent made = nullptr;
  Background create(lab, [&] { return cu.EventCreate(&made, CU_EVENT_DISABLE_TIMING); });
  lab.shows("create.returns", create.returns_within(500ms));
  Background destroy(lab, [&] { return cu.EventDestroy(doomed.release()); });
  lab.shows("destroy.returns", destroy.returns_within(500ms));
  lab.is("query.while_these_are_stuck", on_other_thread(lab, [&] { return cu.EventQuery(pending); }));
  gate.open();
  lab.is("create.after_the_gate_opened", create.join());
  lab.is("destroy.after_the_gate_opened", destroy.join());
  lab.is("submissions", filler.thread.join());
  lab.is("synchronize", cu.StreamSynchronize(full));
  cu.EventDestroy(made);
}

using NamedCall = std::pair<const char*, std::function<CUresult()>>;

// Makes each call while the launch queue of the stream's context is full.
void each_beside_full_queue(Lab& lab, CUstream full, std::initializer_list<NamedCall> calls) {
  const Api& cu = lab.cu;
  const CUfunction nothing = lab.kernel("step");
  for (const auto& [name, call] : calls) {
    Gate gate(lab, full);
    Filler filler(lab, [&] { return cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, full, nullptr, nullptr); });
    Background attempt(lab, call);
    lab.shows(std::string(name) + ".returns", filler.blocked() && attempt.returns_within(500ms));
    gate.open();
    lab.is(name, attempt.join());
    lab.must(filler.thread.join(), "submission");
    lab.must(cu.StreamSynchronize(full), "synchronize");
  }
}

// Which other calls wait for a full queue of their context.
void beside_full_queue(Lab& lab) {
  const Api& cu = lab.cu;
  Stream full(lab), other(lab);
  Event event(lab);
  std::vector<char> pinned(8192);
  CUgraph graph = nullptr, made = nullptr, captured = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  void* host = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  CUstreamCaptureStatus status{};
  lab.must(cu.GraphCreate(&graph, 0), "cuGraphCreate");
  const std::initializer_list<NamedCall> calls = {
      {"graph_create", [&] { return cu.GraphCreate(&made, 0); }},
      {"add_record", [&] { return cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event); }},
      {"capture_info",
       [&] { return cu.StreamGetCaptureInfo(other, &status, nullptr, nullptr, nullptr, nullptr); }},
      {"begin_capture", [&] { return cu.StreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED); }},
      {"end_capture", [&] { return cu.StreamEndCapture(other, &captured); }},
      {"stream_create", [&] { return cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING); }},
      {"instantiate", [&] { return cu.GraphInstantiateWithFlags(&exec, graph, 0); }},
      {"pin", [&] { return cu.MemHostRegister(pinned.data(), pinned.size(), CU_MEMHOSTREGISTER_PORTABLE); }},
      {"host_alloc", [&] { return cu.MemHostAlloc(&host, 64, CU_MEMHOSTALLOC_PORTABLE); }},
      {"alloc", [&] { return cu.MemAlloc(&memory, 64); }},
  };
  each_beside_full_queue(lab, full, calls);
  cu.MemHostUnregister(pinned.data());
}

// Which questions about pointers and objects wait for a full queue of their context.
void questions_beside_full_queue(Lab& lab) {
  const Api& cu = lab.cu;
  Stream full(lab), other(lab);
  CUdeviceptr device = 0, pooled = 0, begin = 0;
  lab.must(cu.MemAlloc(&device, 64), "cuMemAlloc");
  lab.must(cu.MemAllocAsync(&pooled, 64, other), "cuMemAllocAsync");
  lab.must(cu.StreamSynchronize(other), "synchronize");
  const CUdeviceptr pinned = Lab::address(lab.word());
  const CUdeviceptr pageable = reinterpret_cast<CUdeviceptr>(&begin);
  std::uint64_t type = 0, range = 0, start = 0, managed = 0;
  std::size_t size = 0;
  unsigned long long number = 0;
  const auto attribute = [&](CUdeviceptr address) {
    return cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  };
  const auto attributes = [&](CUdeviceptr address) {
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* answers[] = {&type, &managed, &start, &range};
    return cu.PointerGetAttributes(4, wanted, answers, address);
  };
  const std::initializer_list<NamedCall> calls = {
      {"attribute.device", [&] { return attribute(device); }},
      {"attribute.pooled", [&] { return attribute(pooled); }},
      {"attribute.pinned", [&] { return attribute(pinned); }},
      {"attribute.pageable", [&] { return attribute(pageable); }},
      {"attributes.device", [&] { return attributes(device); }},
      {"attributes.pooled", [&] { return attributes(pooled); }},
      {"attributes.pinned", [&] { return attributes(pinned); }},
      {"attributes.pageable", [&] { return attributes(pageable); }},
      {"address_range", [&] { return cu.MemGetAddressRange(&begin, &size, device); }},
      {"context_id", [&] { return cu.CtxGetId(lab.home, &number); }},
      {"stream_id", [&] { return cu.StreamGetId(full, &number); }},
  };
  each_beside_full_queue(lab, full, calls);
}

// Ends of graphs with a user object, while another thread is blocked on a full queue.
void ends_beside_full_queue(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction nothing = lab.kernel("step");
  Stream full(lab), other(lab);
  Event event(lab);
  static std::atomic<int> ended = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUuserObject object = nullptr;
  const auto retain = [&] {
    CUgraphNode node = nullptr;
    lab.must(cu.UserObjectCreate(
                 &object, nullptr, [](void*) { ++ended; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
             "cuUserObjectCreate");
    lab.must(cu.GraphCreate(&graph, 0), "cuGraphCreate");
    lab.must(cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event), "record node");
    lab.must(cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), "retain");
  };
  const auto instantiate = [&] {
    retain();
    lab.must(cu.GraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
    lab.must(cu.GraphDestroy(graph), "cuGraphDestroy");
  };
  const auto launch = [&] {
    instantiate();
    lab.must(cu.GraphLaunch(exec, other), "launch");
    lab.must(cu.StreamSynchronize(other), "synchronize");
  };
  const struct {
    const char* name;
    std::function<void()> begin;
    std::function<CUresult()> end;
  } cases[] = {{"graph", retain, [&] { return cu.GraphDestroy(graph); }},
               {"exec", instantiate, [&] { return cu.GraphExecDestroy(exec); }},
               {"launched_exec", launch, [&] { return cu.GraphExecDestroy(exec); }}};
  for (const auto& [name, begin, end] : cases) {
    ended = 0;
    begin();
    Gate gate(lab, full);
    Filler filler(lab, [&] { return cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, full, nullptr, nullptr); });
    Background attempt(lab, end);
    lab.shows(std::string(name) + ".returns", filler.blocked() && attempt.returns_within(500ms));
    std::this_thread::sleep_for(100ms);
    lab.shows(std::string(name) + ".object_ended", ended == 1);
    gate.open();
    lab.is(name, attempt.join());
    lab.must(filler.thread.join(), "submission");
    lab.must(cu.StreamSynchronize(full), "synchronize");
  }
}

// Which kinds of submission fill the queue of a held stream.
void queue_by_kind(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction nothing = lab.kernel("step");
  Stream other(lab);
  Event done(lab), pending(lab), timed(lab, CU_EVENT_DEFAULT);
  Event timed_end(lab, CU_EVENT_DEFAULT), untimed(lab);
  Event blocking(lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
  Event shared(lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  cu.EventRecord(done, other);
  lab.must(cu.StreamSynchronize(other), "synchronize");
  unsigned* const word = lab.word();
  const auto kernel = [&](CUstream stream) {
    return cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  };
  const auto record = [&](CUevent event) {
    return [&cu, event](CUstream stream) {
      return cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL);
    };
  };
  Stream capturing(lab);
  static std::atomic<int> user = 0;
  const auto captured = [&](const std::vector<std::function<CUresult(CUstream)>>& work,
                            bool with_user_object = false) {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    lab.must(cu.StreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    for (const auto& submit : work)
      lab.must(submit(capturing), "captured work");
    lab.must(cu.StreamEndCapture(capturing, &graph), "end");
    CUuserObject object = nullptr;
    if (with_user_object) {
      lab.must(cu.UserObjectCreate(
                   &object, &user, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
               "create");
      lab.must(cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), "retain");
    }
    lab.must(cu.GraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    return [&cu, exec](CUstream stream) { return cu.GraphLaunch(exec, stream); };
  };

  const std::pair<const char*, std::function<CUresult(CUstream)>> kinds[] = {
      {"kernel", kernel},
      {"timed_record", [&](CUstream stream) { return cu.EventRecord(timed, stream); }},
      {"write_value",
       [&](CUstream stream) { return cu.StreamWriteValue32(stream, Lab::address(word), 1, 0); }},
      {"launch_of_record", captured({record(timed)})},
      {"launch_of_kernel", captured({kernel})},
      {"launch_of_four_kernels", captured({kernel, kernel, kernel, kernel})},
      {"launch_of_timed_kernel", captured({record(timed), kernel, record(timed_end)})},
      {"launch_of_kept_kernel", captured({kernel}, true)},
      {"launch_of_kept_timed_kernel", captured({record(timed), kernel, record(timed_end)}, true)},
      {"launch_of_marked_kernel", captured({record(untimed), kernel, record(done)})},
      {"wait_and_timed_record",
       [&](CUstream stream) {
         const CUresult result = cu.StreamWaitEvent(stream, pending, 0);
         return result == CUDA_SUCCESS ? cu.EventRecord(timed, stream) : result;
       }},
      {"wait_value",
       [&](CUstream stream) {
         return cu.StreamWaitValue32(stream, Lab::address(word), 0, CU_STREAM_WAIT_VALUE_GEQ);
       }},
      {"blocking_sync_record", [&](CUstream stream) { return cu.EventRecord(blocking, stream); }},
      {"interprocess_record", [&](CUstream stream) { return cu.EventRecord(shared, stream); }},
      {"untimed_record", [&](CUstream stream) { return cu.EventRecord(untimed, stream); }},
      {"wait.done", [&](CUstream stream) { return cu.StreamWaitEvent(stream, done, 0); }},
      {"wait.pending", [&](CUstream stream) { return cu.StreamWaitEvent(stream, pending, 0); }},
      {"host_function",
       [&](CUstream stream) {
         return cu.LaunchHostFunc(
             stream, [](void*) {}, nullptr);
       }},
  };
  for (const auto& [name, submit] : kinds) {
    Stream held(lab);
    Gate other_gate(lab, other);
    cu.EventRecord(pending, other);
    Gate gate(lab, held);
    std::atomic<int> submitted = 0;
    Background filler(lab, [&, &call = submit] {
      CUresult result = CUDA_SUCCESS;
      for (; submitted < 4096 && result == CUDA_SUCCESS; ++submitted)
        result = call(held);
      return result;
    });
    int before = -1;
    while (before != submitted && !filler.returns_within(0ms)) {
      before = submitted;
      std::this_thread::sleep_for(300ms);
    }
    const bool blocks = !filler.returns_within(0ms);
    lab.shows(std::string(name) + ".blocks", blocks);
    // A small number is small in each run, but not the same in each run.
    if (blocks)
      lab.shows(std::string(name) + ".after_about",
                submitted < 100 ? "less than 100" : std::to_string((submitted + 10) / 20 * 20));
    gate.open();
    other_gate.open();
    lab.is(std::string(name) + ".submissions", filler.join());
    lab.is(std::string(name) + ".synchronize", cu.StreamSynchronize(held));
  }
}

// Work that still fits in a stream whose queue is full of timed records.
void full_of_records(Lab& lab) {
  const Api& cu = lab.cu;
  Event timed(lab, CU_EVENT_DEFAULT), untimed(lab);
  Stream held(lab);
  Gate gate(lab, held);
  Filler filler(lab, [&] { return cu.EventRecord(timed, held); });
  lab.shows("is_full", filler.blocked());
  const std::pair<const char*, std::function<CUresult()>> calls[] = {
      {"untimed_record", [&] { return cu.EventRecord(untimed, held); }},
      {"wait", [&] { return cu.StreamWaitEvent(held, untimed, 0); }},
      {"host_function",
       [&] {
         return cu.LaunchHostFunc(
             held, [](void*) {}, nullptr);
       }},
  };
  std::vector<std::unique_ptr<Background>> attempts;
  for (const auto& [name, call] : calls) {
    attempts.push_back(std::make_unique<Background>(lab, call));
    lab.shows(std::string(name) + ".returns", attempts.back()->returns_within(1s));
  }
  gate.open();
  for (const auto& attempt : attempts)
    lab.must(attempt->join(), "submission");
  lab.is("submissions", filler.thread.join());
  lab.is("synchronize", cu.StreamSynchronize(held));
}

} // namespace

std::vector<Scenario> stream_scenarios() {
  return {{"stream.create", create},
          {"stream.identity", identity},
          {"stream.legacy", legacy},
          {"stream.per_thread_functions", per_thread_functions},
          {"stream.destroy_default", destroy_default, Place::child},
          {"stream.full_queue", full_queue, Place::child},
          {"stream.beside_full_queue", beside_full_queue, Place::child, 1, 9},
          {"stream.questions_beside_full_queue", questions_beside_full_queue, Place::alone},
          {"stream.ends_beside_full_queue", ends_beside_full_queue, Place::child, 1, 9},
          {"stream.queue_by_kind", queue_by_kind, Place::child, 1, 10},
          {"stream.full_of_records", full_of_records, Place::child}};
}

} // namespace transcript
