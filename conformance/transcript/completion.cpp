// SPDX-License-Identifier: MIT
// When work counts as complete, in the less obvious cases.

#include "lab.hpp"

namespace transcript {
namespace {

constexpr unsigned untimed = CU_EVENT_DISABLE_TIMING;
constexpr unsigned shared_flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// The answer once work had the time to complete that nothing holds.
CUresult in_time(const std::function<CUresult()>& poll) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  CUresult answer = poll();
  while (answer == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < end)
    answer = poll();
  return answer;
}
CUresult settled(Lab& lab, CUevent event) {
  return in_time([&] { return lab.cu.EventQuery(event); });
}
CUresult settled(Lab& lab, CUstream stream) {
  return in_time([&] { return lab.cu.StreamQuery(stream); });
}
CUresult settled(Lab& lab, const Event& event) { return settled(lab, static_cast<CUevent>(event)); }
CUresult settled(Lab& lab, const Stream& stream) { return settled(lab, static_cast<CUstream>(stream)); }

#if CUDA_VERSION >= 12050
// A stream that is held by cuCtxWaitEvent alone, and has one record.
void only_a_record(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CtxWaitEvent == nullptr) return;
  for (const unsigned flags : {untimed, unsigned{CU_EVENT_DEFAULT}, shared_flags}) {
    const std::string name = "flags_" + std::to_string(flags);
    const Current second(lab, lab.second_context());
    Stream stream(lab), held(lab);
    Event awaited(lab), event(lab, flags);
    Gate gate(lab, held);
    lab.must(cu.EventRecord(awaited, held), "record");
    lab.must(cu.CtxWaitEvent(lab.second_context(), awaited), "cuCtxWaitEvent");
    lab.is(name + ".record", cu.EventRecord(event, stream));
    lab.is(name + ".event", settled(lab, event));
    lab.is(name + ".stream", settled(lab, stream));
    lab.is(name + ".wait", cu.StreamWaitEvent(stream, awaited, 0));
    lab.is(name + ".stream_with_a_wait", settled(lab, stream));
    gate.open();
    lab.is(name + ".event.afterwards", settled(lab, event));
  }
}

// cuCtxWaitEvent for a complete interprocess event comes after the work of all streams.
void whole_context_wait(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CtxWaitEvent == nullptr) return;
  for (const unsigned flags : {untimed, shared_flags}) {
    const std::string name = "flags_" + std::to_string(flags);
    Stream held(lab), other(lab);
    Event event(lab, flags), later(lab);
    lab.must(cu.EventRecord(event, other), "record");
    lab.must(settled(lab, other), "synchronize");
    Gate gate(lab, held);
    lab.is(name + ".wait", cu.CtxWaitEvent(lab.home, event));
    lab.must(cu.EventRecord(later, other), "record");
    lab.is(name + ".another_stream", settled(lab, later));
    gate.open();
    lab.is(name + ".afterwards", settled(lab, other));
  }
}

// cuCtxRecordEvent of an event whose record by a launch is pending, and of one whose record on a stream is.
void whole_context_record(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CtxRecordEvent == nullptr) return;
  Stream held(lab);
  CUstream far = nullptr;
  {
    const Current second(lab, lab.second_context());
    far = Stream(lab).release();
  }
  Event event(lab);
  CUgraphNode node = nullptr;
  CUgraph graph = make_graph(lab);
  lab.must(cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event), "add");
  CUgraphExec exec = make_exec(lab, graph);
  Gate gate(lab, far);
  lab.is("launch", cu.GraphLaunch(exec, far)); // on a stream of another context
  lab.is("launch.record", cu.CtxRecordEvent(lab.home, event));
  lab.is("launch.query", settled(lab, event));
  Stream idle(lab);
  lab.is("stream.record", cu.EventRecord(event, idle));
  lab.is("stream.query", settled(lab, event));
  gate.open();
  lab.is("afterwards", settled(lab, far));
}
#endif

// A wait for a complete event puts nothing on a stream, except if the event is an interprocess one.
void wait_for_complete(Lab& lab) {
  const Api& cu = lab.cu;
  for (const unsigned flags : {untimed, shared_flags}) {
    const std::string name = "flags_" + std::to_string(flags);
    Stream first(lab, CU_STREAM_DEFAULT), second(lab, CU_STREAM_DEFAULT), away(lab);
    Event event(lab, flags), later(lab);
    lab.must(cu.EventRecord(event, away), "record");
    lab.must(settled(lab, away), "synchronize");
    Gate gate(lab,
              first); // a wait of the legacy stream would come after this, and before later work of `second`
    lab.is(name + ".legacy_waits", cu.StreamWaitEvent(CU_STREAM_LEGACY, event, 0));
    lab.must(cu.EventRecord(later, second), "record");
    lab.is(name + ".blocking_stream", settled(lab, later));
    gate.open();
    lab.is(name + ".afterwards", settled(lab, later));
  }
}

struct Exec {
  Exec(Lab& lab, const std::function<void(CUgraph)>& fill) {
    CUgraph graph = make_graph(lab);
    fill(graph);
    lab.must(lab.cu.GraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
  }
  CUgraphExec exec = nullptr;
};

// A second launch of an exec while the first one is held on another stream.
void second_launch(Lab& lab) {
  const Api& cu = lab.cu;
  Event event(lab);
  const auto launch_twice = [&](const std::string& name, const std::function<void(CUgraph)>& fill) {
    const Exec graph(lab, fill);
    Stream held(lab), idle(lab);
    Event later(lab);
    Gate gate(lab, held);
    lab.must(cu.GraphLaunch(graph.exec, held), "launch");
    lab.is(name + ".launch", cu.GraphLaunch(graph.exec, idle));
    lab.is(name + ".stream", settled(lab, idle));
    gate.open();
    lab.is(name + ".afterwards", settled(lab, idle));
  };
  CUgraphNode node = nullptr;
  launch_twice("no_nodes", [](CUgraph) {});
  launch_twice("empty_node",
               [&](CUgraph graph) { lab.must(cu.GraphAddEmptyNode(&node, graph, nullptr, 0), "add"); });
  launch_twice("event_node", [&](CUgraph graph) {
    lab.must(cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event), "add");
  });
}

// A record node before a wait node does not wait for the other node's event.
void event_nodes_in_a_row(Lab& lab) {
  const Api& cu = lab.cu;
  Event recorded(lab), awaited(lab);
  Stream held(lab), stream(lab);
  const Exec graph(lab, [&](CUgraph into) {
    CUgraphNode first = nullptr, second = nullptr;
    lab.must(cu.GraphAddEventRecordNode(&first, into, nullptr, 0, recorded), "add");
    lab.must(cu.GraphAddEventWaitNode(&second, into, &first, 1, awaited), "add");
  });
  Gate gate(lab, held);
  lab.must(cu.EventRecord(awaited, held), "record");
  lab.is("launch", cu.GraphLaunch(graph.exec, stream));
  lab.is("event_before_the_wait", settled(lab, recorded));
  gate.open();
  lab.is("afterwards", settled(lab, stream));
}

// A launch that records an event of an active capture, with each combination of: a graph that waits for the
// event first, a launch that is held, and an earlier record of the event that is pending.
void captured_events(Lab& lab) {
  const Api& cu = lab.cu;
  for (const bool waits : {false, true})
    for (const bool launch_held : {false, true})
      for (const bool record_held : {false, true}) {
        Event event(lab);
        Stream origin(lab), stream(lab);
        const Exec graph(lab, [&](CUgraph into) {
          CUgraphNode first = nullptr, second = nullptr;
          if (waits) lab.must(cu.GraphAddEventWaitNode(&first, into, nullptr, 0, event), "add");
          lab.must(cu.GraphAddEventRecordNode(&second, into, &first, waits ? 1 : 0, event), "add");
        });
        Gate record_gate(lab, origin), launch_gate(lab, stream);
        if (!record_held) record_gate.open();
        if (!launch_held) launch_gate.open();
        lab.must(cu.EventRecord(event, origin), "record");
        if (!record_held) lab.must(settled(lab, origin), "synchronize");
        if (!launch_held) lab.must(settled(lab, stream), "synchronize");
        lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
        lab.must(cu.EventRecord(event, origin), "record in the capture");
        const std::string name = std::string(waits ? "waits" : "records") +
                                 (launch_held ? ".launch_held" : "") + (record_held ? ".record_held" : "");
        lab.is(name + ".launch", cu.GraphLaunch(graph.exec, stream));
        lab.shows(name + ".launch.then_capture", capture_state(lab, stream));
        float ms = 0;
        lab.is(name + ".elapsed", cu.EventElapsedTime(&ms, event, event));
        lab.is(name + ".query", settled(lab, event));
        lab.shows(name + ".query.then_capture", capture_state(lab, origin));
        record_gate.open();
        launch_gate.open();
        end_capture(lab, origin);
        lab.is(name + ".stream", settled(lab, stream));
      }
}

// Which graphs that wait for an event of an active capture make the stream join it when they are launched.
void joining_launches(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction kernel = lab.kernel("step");
  CUDA_KERNEL_NODE_PARAMS call{};
  call.func = kernel;
  call.gridDimX = call.gridDimY = call.gridDimZ = call.blockDimX = call.blockDimY = call.blockDimZ = 1;
  enum Kind { wait, record, record_other, empty, work };
  struct Shape {
    const char* name;
    std::vector<Kind> nodes;
    bool chain;
  };
  const Shape shapes[] = {{"wait", {wait}, true},
                          {"wait_then_record", {wait, record}, true},
                          {"wait_then_other_record", {wait, record_other}, true},
                          {"wait_twice", {wait, wait}, true},
                          {"wait_next_to_wait", {wait, wait}, false},
                          {"wait_next_to_record", {wait, record_other}, false},
                          {"other_record_then_wait", {record_other, wait}, true},
                          {"record_then_wait", {record, wait}, true},
                          {"wait_record_wait", {wait, record, wait}, true},
                          {"wait_then_empty", {wait, empty}, true},
                          {"empty_then_wait", {empty, wait}, true},
                          {"wait_next_to_empty", {wait, empty}, false},
                          {"wait_then_kernel", {wait, work}, true},
                          {"kernel_then_wait", {work, wait}, true},
                          {"wait_next_to_kernel", {wait, work}, false}};
  for (const auto& [name, nodes, chain] : shapes) {
    Event event(lab), other(lab);
    Stream origin(lab), stream(lab);
    const Exec graph(lab, [&, &nodes = nodes, &chain = chain](CUgraph into) {
      CUgraphNode last = nullptr;
      for (const Kind kind : nodes) {
        CUgraphNode added = nullptr;
        const std::size_t count = chain && last != nullptr ? 1 : 0;
        lab.must(kind == wait           ? cu.GraphAddEventWaitNode(&added, into, &last, count, event)
                 : kind == record       ? cu.GraphAddEventRecordNode(&added, into, &last, count, event)
                 : kind == record_other ? cu.GraphAddEventRecordNode(&added, into, &last, count, other)
                 : kind == empty        ? cu.GraphAddEmptyNode(&added, into, &last, count)
                                        : cu.GraphAddKernelNode(&added, into, &last, count, &call),
                 "add");
        last = added;
      }
    });
    lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.must(cu.EventRecord(event, origin), "record");
    const std::string of = name;
    lab.is(of + ".launch", cu.GraphLaunch(graph.exec, stream));
    lab.shows(of + ".then_capture", capture_state(lab, stream));
    lab.is(of + ".other.query", cu.EventQuery(other));
    CUgraph captured = nullptr;
    lab.is(of + ".end", cu.StreamEndCapture(origin, &captured));
    lab.shows(of + ".nodes", captured == nullptr ? "no graph" : node_types(lab, captured));
    lab.is(of + ".stream", settled(lab, stream));
  }
}

// A launch that waits for events of two active captures: in one row, next to each other, and on a stream that
// has joined the second one.
void joining_two_captures(Lab& lab) {
  const Api& cu = lab.cu;
  for (const char* const shape : {"row", "next_to_each_other", "stream_of_the_second"}) {
    Event first(lab), second(lab), other(lab);
    Stream first_origin(lab), second_origin(lab), stream(lab);
    const bool row = shape == std::string_view("row");
    const Exec graph(lab, [&](CUgraph into) {
      CUgraphNode one = nullptr, two = nullptr, last = nullptr;
      lab.must(cu.GraphAddEventWaitNode(&one, into, nullptr, 0, first), "add");
      lab.must(cu.GraphAddEventWaitNode(&two, into, &one, row ? 1 : 0, second), "add");
      lab.must(cu.GraphAddEventRecordNode(&last, into, &two, 1, other), "add");
    });
    for (const auto& [origin, event] : {std::pair{CUstream(first_origin), CUevent(first)},
                                        std::pair{CUstream(second_origin), CUevent(second)}}) {
      lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
      lab.must(cu.EventRecord(event, origin), "record");
    }
    const std::string name = shape;
    const bool joined = name == "stream_of_the_second";
    if (joined) lab.must(cu.StreamWaitEvent(stream, second, 0), "wait");
    lab.is(name + ".launch", cu.GraphLaunch(graph.exec, stream));
    std::string states;
    for (CUstream const asked : {CUstream(first_origin), CUstream(second_origin), CUstream(stream)})
      states += (states.empty() ? "" : ", ") + capture_state(lab, asked);
    lab.shows(name + ".captures", states);
    cuuint64_t ids[3] = {};
    int at = 0;
    for (CUstream const asked : {CUstream(first_origin), CUstream(second_origin), CUstream(stream)}) {
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      cu.StreamGetCaptureInfo(asked, &status, &ids[at++], nullptr, nullptr, nullptr);
    }
    lab.shows(name + ".stream_is_in", ids[2] == 0        ? "none"
                                      : ids[2] == ids[0] ? "the first"
                                      : ids[2] == ids[1] ? "the second"
                                                         : "another");
    lab.is(name + ".other.query", cu.EventQuery(other));
    lab.is(name + ".end_first", end_capture(lab, first_origin));
    lab.is(name + ".end_second", end_capture(lab, second_origin));
  }
}

} // namespace

std::vector<Scenario> completion_scenarios() {
  constexpr auto own = Place::child;
  return {
#if CUDA_VERSION >= 12050
    {"completion.only_a_record", only_a_record, own},
        {"completion.whole_context_wait", whole_context_wait, own},
        {"completion.whole_context_record", whole_context_record, own},
#endif
        {"completion.wait_for_complete", wait_for_complete, own},
        {"completion.second_launch", second_launch, own},
        {"completion.event_nodes_in_a_row", event_nodes_in_a_row, own},
        {"completion.captured_events", captured_events, own},
        {"completion.joining_launches", joining_launches, own},
        {"completion.joining_two_captures", joining_two_captures, own},
  };
}

} // namespace transcript
