// SPDX-License-Identifier: MIT
// Calls on streams and graphs next to a capture, and calls on a stream that captures.

#include "scene.hpp"

namespace transcript {
namespace {

// The legacy stream, while a blocking stream of its context captures.
void legacy_stream(Lab& lab) {
  const auto ask = [&](const char* name, Call call) {
    probe(lab, name, CU_STREAM_CAPTURE_MODE_RELAXED, call, CU_STREAM_DEFAULT);
  };
  constexpr auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ask("synchronize", [](Scene& s) { return s.cu.StreamSynchronize(CU_STREAM_LEGACY); });
  ask("get_flags", [](Scene& s) {
    unsigned flags = 0;
    return s.cu.StreamGetFlags(CU_STREAM_LEGACY, &flags);
  });
  ask("get_priority", [](Scene& s) {
    int priority = 0;
    return s.cu.StreamGetPriority(CU_STREAM_LEGACY, &priority);
  });
  ask("write_value",
      [](Scene& s) { return s.cu.StreamWriteValue32(CU_STREAM_LEGACY, Lab::address(s.word), 1, 0); });
  ask("launch_graph", [](Scene& s) { return s.cu.GraphLaunch(s.exec, CU_STREAM_LEGACY); });
  ask("begin", [](Scene& s) { return s.cu.StreamBeginCapture(CU_STREAM_LEGACY, mode); });
  ask("begin.stream_0", [](Scene& s) { return s.cu.StreamBeginCapture(nullptr, mode); });
  ask("end", [](Scene& s) { return end_capture(s.lab, CU_STREAM_LEGACY); });
  ask("destroy", [](Scene& s) { return s.cu.StreamDestroy(CU_STREAM_LEGACY); });
  ask("destroy.stream_0", [](Scene& s) { return s.cu.StreamDestroy(nullptr); });
  ask("is_capturing", [](Scene& s) {
    CUstreamCaptureStatus status{};
    return s.cu.StreamIsCapturing(CU_STREAM_LEGACY, &status);
  });
}

// The same, while a per-thread default stream captures.
void per_thread_stream(Lab& lab) {
  const Api& cu = lab.cu;
  Event event(lab);
  lab.is("begin", cu.StreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
  lab.is("record_legacy", cu.EventRecord(event, CU_STREAM_LEGACY));
  lab.shows("record_legacy.then_capture", capture_state(lab, CU_STREAM_PER_THREAD));
  lab.is("end", end_capture(lab, CU_STREAM_PER_THREAD));
}

void capturing_stream(Lab& lab) {
  for (const Mode& mode : capture_modes) {
    const std::string name = mode.name;
    probe(lab, name + ".get_flags", mode.value, [](Scene& s) {
      unsigned flags = 0;
      return s.cu.StreamGetFlags(s.origin, &flags);
    });
    probe(lab, name + ".get_priority", mode.value, [](Scene& s) {
      int priority = 0;
      return s.cu.StreamGetPriority(s.origin, &priority);
    });
    probe(lab, name + ".invalidated.get_priority", mode.value, [](Scene& s) {
      int priority = 0;
      s.cu.StreamQuery(s.origin);
      return s.cu.StreamGetPriority(s.origin, &priority);
    });
    probe(lab, name + ".ctx_synchronize_of_another_context", mode.value, [](Scene& s) {
      const Current second(s.lab, s.lab.second_context());
      return s.cu.CtxSynchronize();
    });
    probe(lab, name + ".graph_exec_destroy", mode.value, [](Scene& s) {
      const CUresult result = s.cu.GraphExecDestroy(s.exec);
      if (result == CUDA_SUCCESS) s.exec = nullptr;
      return result;
    });
    probe(lab, name + ".graph_destroy", mode.value, [](Scene& s) {
      CUgraph graph = make_graph(s.lab);
      return s.cu.GraphDestroy(graph);
    });
    probe(lab, name + ".launch_graph_into_invalidated", mode.value, [](Scene& s) {
      s.cu.StreamQuery(s.origin);
      return s.cu.GraphLaunch(s.exec, s.origin);
    });
  }
}

// A graph that consists of one wait, for an event of an active capture.
void launch_of_a_wait(Lab& lab) {
  const Api& cu = lab.cu;
  CUgraphNode node = nullptr;
  Event event(lab);
  CUgraph graph = make_graph(lab);
  lab.must(cu.GraphAddEventWaitNode(&node, graph, nullptr, 0, event), "add");
  CUgraphExec exec = make_exec(lab, graph);
  Stream origin(lab), other(lab);
  lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(cu.EventRecord(event, origin), "record");
  lab.is("launch", cu.GraphLaunch(exec, other));
  lab.shows("stream", capture_state(lab, other));
  lab.shows("origin", capture_state(lab, origin));
  lab.is("end", end_capture(lab, origin));
  lab.shows("stream.afterwards", capture_state(lab, other));
}

} // namespace

std::vector<Scenario> capture_neighbours_scenarios() {
  return {{"capture_neighbours.legacy_stream", legacy_stream, Place::child},
          {"capture_neighbours.per_thread_stream", per_thread_stream, Place::child},
          {"capture_neighbours.capturing_stream", capturing_stream, Place::child},
          {"capture_neighbours.launch_of_a_wait", launch_of_a_wait, Place::child}};
}

} // namespace transcript
