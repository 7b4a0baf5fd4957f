// SPDX-License-Identifier: MIT
// Events made with CU_EVENT_INTERPROCESS, in the process that made them and in one that imported them. If a
// stream of another context waits for such an event, the process crashes, so each case has its own process.

#include "child.hpp"
#include "ipc_handle.hpp"

namespace transcript {
namespace {

enum class Where { same, second, primary, far };
enum class State { never, done, pending, exported };

constexpr unsigned shared_flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// The end of the process destroys contexts and streams.
CUcontext context_of(Lab& lab, Where where) {
  if (where == Where::same) return lab.home;
  if (where == Where::second) return lab.second_context();
  CUcontext context = nullptr;
  CUdevice device = 0;
  lab.must(lab.cu.DeviceGet(&device, where == Where::far ? 1 : 0), "cuDeviceGet");
  lab.must(lab.cu.DevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  return context;
}

CUstream stream_of(Lab& lab, CUcontext context) {
  const Current guard(lab, context);
  return Stream(lab).release();
}

// The event of a case, and the work that it marks.
struct Shared {
  Shared(Lab& lab, State state) : event(lab, shared_flags), stream(lab), gate(lab, stream) {
    if (state == State::done) gate.open();
    if (state != State::never) lab.must(lab.cu.EventRecord(event, stream), "cuEventRecord");
    if (state == State::done) lab.must(lab.cu.StreamSynchronize(stream), "cuStreamSynchronize");
    if (state == State::exported) handle_of(lab, event);
  }
  Event event;
  Stream stream;
  Gate gate;
};

void finish(Lab& lab, Shared& shared, CUstream stream) {
  shared.gate.open();
  lab.is("stream", lab.cu.StreamSynchronize(stream));
}

template <Where where, State state>
void wait(Lab& lab) {
  Shared shared(lab, state);
  CUstream const stream = stream_of(lab, context_of(lab, where));
  lab.is("wait", lab.cu.StreamWaitEvent(stream, shared.event, 0));
  finish(lab, shared, stream);
}

// On the default streams of another context, while that context is current.
template <int stream>
void wait_on_default(Lab& lab) {
  Shared shared(lab, State::done);
  const Current guard(lab, lab.second_context());
  lab.is("wait", lab.cu.StreamWaitEvent(reinterpret_cast<CUstream>(stream), shared.event, 0));
}

// Calls that the driver refuses for another reason before it looks at the event.
void refused_first(Lab& lab) {
  const Api& cu = lab.cu;
  Shared shared(lab, State::done);
  CUstream const stream = stream_of(lab, lab.second_context());
  lab.is("external", cu.StreamWaitEvent(stream, shared.event, CU_EVENT_WAIT_EXTERNAL));
  lab.is("unknown_flags", cu.StreamWaitEvent(stream, shared.event, 2));
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("in_capture.external", cu.StreamWaitEvent(stream, shared.event, CU_EVENT_WAIT_EXTERNAL));
  lab.is("in_capture.plain", cu.StreamWaitEvent(stream, shared.event, 0));
  lab.shows("in_capture.plain.then_capture", capture_state(lab, stream));
  lab.is("in_invalidated_capture.plain", cu.StreamWaitEvent(stream, shared.event, 0));
  lab.is("in_capture.end", end_capture(lab, stream));
  lab.is("record", cu.EventRecord(shared.event, stream));
  {
    const Current none(lab, nullptr);
    lab.is("no_context.stream_0", cu.StreamWaitEvent(nullptr, shared.event, 0));
  }
  const Current guard(lab, lab.second_context());
  lab.is("query", cu.EventQuery(shared.event));
  lab.is("synchronize", cu.EventSynchronize(shared.event));
}

// The legacy stream of a context while a blocking stream of that context captures.
void refused_beside_capture(Lab& lab) {
  const Api& cu = lab.cu;
  Shared shared(lab, State::done);
  const Current guard(lab, lab.second_context());
  Stream blocking(lab, CU_STREAM_DEFAULT);
  lab.must(cu.StreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("legacy", cu.StreamWaitEvent(CU_STREAM_LEGACY, shared.event, 0));
  lab.shows("legacy.then_capture", capture_state(lab, blocking));
  lab.is("end", end_capture(lab, blocking));
}

// A record waits for the previous record if that one is pending on another stream.
void record_again(Lab& lab) {
  const Api& cu = lab.cu;
  Shared shared(lab, State::pending);
  Stream idle(lab);
  lab.is("record", cu.EventRecord(shared.event, idle));
  lab.is("query", cu.EventQuery(shared.event));
  lab.is("stream_query", cu.StreamQuery(idle));
  finish(lab, shared, idle);
  lab.is("query.afterwards", cu.EventQuery(shared.event));
}

// An event outlives its context.
void destroyed_context(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr, popped = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "cuCtxCreate");
  CUevent event = nullptr;
  lab.must(cu.EventCreate(&event, shared_flags), "cuEventCreate");
  lab.must(cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
  lab.must(cu.CtxDestroy(context), "cuCtxDestroy");
  Stream stream(lab);
  lab.is("wait", cu.StreamWaitEvent(stream, event, 0));
}

#if CUDA_VERSION >= 12050
template <Where where>
void wait_context(Lab& lab) {
  Shared shared(lab, State::done);
  CUcontext const context = context_of(lab, where);
  lab.is("wait", lab.cu.CtxWaitEvent(context, shared.event));
}

void wait_context_refused_first(Lab& lab) {
  Shared shared(lab, State::done);
  CUstream const stream = stream_of(lab, lab.second_context());
  lab.must(lab.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("in_capture", lab.cu.CtxWaitEvent(lab.second_context(), shared.event));
  lab.is("end", end_capture(lab, stream));
}

// A green context with a stream.
struct WithStream : Green {
  explicit WithStream(Lab& lab) : Green(lab), home(lab.home) {
    lab.must(lab.cu.GreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), "stream");
  }
  // An interprocess event made while `current` is current, recorded and complete.
  static CUevent event_of(Lab& lab, CUcontext current) {
    const Current guard(lab, current);
    Shared shared(lab, State::done);
    return shared.event.release();
  }
  CUcontext home = nullptr; // another context
  CUstream stream = nullptr;
};

void primary_event_on_green_stream(Lab& lab) {
  const WithStream green(lab);
  CUcontext of_stream = nullptr;
  lab.is("stream_get_ctx", lab.cu.StreamGetCtx(green.stream, &of_stream));
  lab.shows("stream_get_ctx.is_green", of_stream == green.context);
  lab.is("wait", lab.cu.StreamWaitEvent(green.stream, WithStream::event_of(lab, green.primary), 0));
}

void green_event_on_primary_stream(Lab& lab) {
  const WithStream green(lab);
  CUevent const event = WithStream::event_of(lab, green.context);
  lab.is("wait", lab.cu.StreamWaitEvent(stream_of(lab, green.primary), event, 0));
}

// These wait for an event that was made while the context `made` was current.
template <auto made>
void stream_wait(Lab& lab) {
  const WithStream green(lab);
  lab.is("wait", lab.cu.StreamWaitEvent(green.stream, WithStream::event_of(lab, green.*made), 0));
}

template <auto made>
void green_wait(Lab& lab) {
  const WithStream green(lab);
  lab.is("wait", lab.cu.GreenCtxWaitEvent(green.green, WithStream::event_of(lab, green.*made)));
}

template <auto waits, auto made>
void ctx_wait(Lab& lab) {
  const WithStream green(lab);
  lab.is("wait", lab.cu.CtxWaitEvent(green.*waits, WithStream::event_of(lab, green.*made)));
}
#endif

// Nodes of a graph that is launched in another context.
template <Where where>
void graph(Lab& lab) {
  const Api& cu = lab.cu;
  Shared shared(lab, State::pending);
  CUcontext const context = context_of(lab, where);
  CUstream const stream = stream_of(lab, context);
  const Current guard(lab, context);
  CUgraph graph = nullptr;
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("capture_external_wait", cu.StreamWaitEvent(stream, shared.event, CU_EVENT_WAIT_EXTERNAL));
  lab.must(cu.StreamEndCapture(stream, &graph), "end");
  CUgraphNode node = nullptr;
  lab.is("add_wait_node", cu.GraphAddEventWaitNode(&node, graph, nullptr, 0, shared.event));
  CUgraphExec exec = nullptr;
  lab.is("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
  if (exec == nullptr) return;
  lab.is("launch", cu.GraphLaunch(exec, stream));
  lab.is("launch.pending", cu.StreamQuery(stream));
  finish(lab, shared, stream);
  lab.is("launch_again", cu.GraphLaunch(exec, stream));
  lab.is("launch_again.stream", cu.StreamSynchronize(stream));
}

// An event that another process exported, opened in the home context.
struct Imported {
  explicit Imported(Lab& lab) : child(lab, "ipc.exporter") {
    lab.must(lab.cu.IpcOpenEventHandle(&event, from_hex(child.read_line().value_or(""))), "open");
  }
  ~Imported() { child.say("end"); }
  Child child;
  CUevent event = nullptr;
};

template <Where where>
void wait_imported(Lab& lab) {
  const Imported imported(lab);
  CUstream const stream = stream_of(lab, context_of(lab, where));
  lab.is("wait", lab.cu.StreamWaitEvent(stream, imported.event, 0));
  lab.is("stream", lab.cu.StreamSynchronize(stream));
}

#if CUDA_VERSION >= 12050
template <Where where>
void wait_context_imported(Lab& lab) {
  const Imported imported(lab);
  CUcontext const context = context_of(lab, where);
  lab.is("wait", lab.cu.CtxWaitEvent(context, imported.event));
}
#endif

void imported_in_graph(Lab& lab) {
  const Api& cu = lab.cu;
  const Imported imported(lab);
  CUcontext const context = lab.second_context();
  CUstream const stream = stream_of(lab, context);
  const Current guard(lab, context);
  CUgraph graph = make_graph(lab);
  CUgraphNode node = nullptr;
  lab.is("add_wait_node", cu.GraphAddEventWaitNode(&node, graph, nullptr, 0, imported.event));
  CUgraphExec exec = nullptr;
  lab.is("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
  if (exec == nullptr) return;
  lab.is("launch", cu.GraphLaunch(exec, stream));
  lab.is("stream", cu.StreamSynchronize(stream));
}

} // namespace

std::vector<Scenario> interprocess_scenarios() {
  constexpr auto own = Place::child;
  return {
    {"interprocess.wait.same.never", wait<Where::same, State::never>, own},
        {"interprocess.wait.same.pending", wait<Where::same, State::pending>, own},
        {"interprocess.wait.second.never", wait<Where::second, State::never>, own},
        {"interprocess.wait.second.done", wait<Where::second, State::done>, own},
        {"interprocess.wait.second.pending", wait<Where::second, State::pending>, own},
        {"interprocess.wait.second.exported", wait<Where::second, State::exported>, own},
        {"interprocess.wait.primary.done", wait<Where::primary, State::done>, own},
        {"interprocess.wait.far.never", wait<Where::far, State::never>, own, 2},
        {"interprocess.wait.far.done", wait<Where::far, State::done>, own, 2},
        {"interprocess.wait.far.pending", wait<Where::far, State::pending>, own, 2},
        {"interprocess.wait.second.stream_0", wait_on_default<0>, own},
        {"interprocess.wait.second.legacy", wait_on_default<1>, own},
        {"interprocess.wait.second.per_thread", wait_on_default<2>, own},
        {"interprocess.refused_first", refused_first, own},
        {"interprocess.refused_next_to_capture", refused_beside_capture, own},
        {"interprocess.record_again", record_again, own},
        {"interprocess.destroyed_context", destroyed_context, own},
#if CUDA_VERSION >= 12050
        {"interprocess.ctx_wait.same", wait_context<Where::same>, own},
        {"interprocess.ctx_wait.second", wait_context<Where::second>, own},
        {"interprocess.ctx_wait.primary", wait_context<Where::primary>, own},
        {"interprocess.ctx_wait.far", wait_context<Where::far>, own, 2},
        {"interprocess.ctx_wait.refused_first", wait_context_refused_first, own},
        {"interprocess.green.primary_event_on_green_stream", primary_event_on_green_stream, own},
        {"interprocess.green.green_event_on_primary_stream", green_event_on_primary_stream, own},
        {"interprocess.green.green_event_on_green_stream", stream_wait<&WithStream::context>, own},
        {"interprocess.green.other_event_on_green_stream", stream_wait<&WithStream::home>, own},
        {"interprocess.green.green_wait.primary_event", green_wait<&WithStream::primary>, own},
        {"interprocess.green.green_wait.green_event", green_wait<&WithStream::context>, own},
        {"interprocess.green.green_wait.other_event", green_wait<&WithStream::home>, own},
        {"interprocess.green.ctx_wait.green_context", ctx_wait<&WithStream::context, &WithStream::primary>,
         own},
        {"interprocess.green.ctx_wait.green_event", ctx_wait<&WithStream::primary, &WithStream::context>,
         own},
#endif
        {"interprocess.graph.same", graph<Where::same>, own},
        {"interprocess.graph.second", graph<Where::second>, own},
        {"interprocess.graph.far", graph<Where::far>, own, 2},
        {"interprocess.imported.wait.same", wait_imported<Where::same>, own},
        {"interprocess.imported.wait.second", wait_imported<Where::second>, own},
        {"interprocess.imported.wait.primary", wait_imported<Where::primary>, own},
        {"interprocess.imported.wait.far", wait_imported<Where::far>, own, 2},
#if CUDA_VERSION >= 12050
        {"interprocess.imported.ctx_wait.same", wait_context_imported<Where::same>, own},
        {"interprocess.imported.ctx_wait.second", wait_context_imported<Where::second>, own},
#endif
        {"interprocess.imported.graph.second", imported_in_graph, own},
  };
}

} // namespace transcript
