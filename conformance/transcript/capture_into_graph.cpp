// SPDX-License-Identifier: MIT
// Captures into a graph that exists already: cuStreamBeginCaptureToGraph, CUDA 12.3.

#include "scene.hpp"

#include <vector>

namespace transcript {

#if CUDA_VERSION >= 12030
namespace {

constexpr CUstreamCaptureMode thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

// A graph of one empty node, and a stream that no capture uses yet.
struct Site {
  explicit Site(Lab& its) : lab(its), cu(its.cu), kernel(its.kernel("step")) {
    lab.must(cu.GraphCreate(&graph, 0), "create");
    lab.must(cu.GraphAddEmptyNode(&node, graph, nullptr, 0), "add");
  }

  CUresult begin(CUstreamCaptureMode mode = thread_local_mode) const {
    return cu.StreamBeginCaptureToGraph(stream, graph, &node, nullptr, 1, mode);
  }
  CUresult work(CUstream where) const {
    return cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, where, nullptr, nullptr);
  }
  // Ends the capture, and says whether the result is the given graph.
  void end(const std::string& name) {
    CUgraph ended = nullptr;
    lab.is(name + ".end", cu.StreamEndCapture(stream, &ended));
    lab.shows(name + ".end.graph", ended == nullptr ? "none" : ended == graph ? "the given one" : "another");
    lab.shows(name + ".then_stream", capture_state(lab, stream));
  }
  void show_nodes(const std::string& name) { lab.shows(name + ".nodes", node_types(lab, graph)); }
  // Instantiates the graph, launches it and waits for it.
  void run(const std::string& name) {
    CUgraphExec exec = nullptr;
    lab.is(name + ".instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    if (exec == nullptr) return;
    lab.is(name + ".launch", cu.GraphLaunch(exec, stream));
    lab.is(name + ".synchronize", cu.StreamSynchronize(stream));
    cu.GraphExecDestroy(exec);
  }

  Lab& lab;
  const Api& cu;
  CUfunction kernel;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  Stream stream{lab};
};

void good(Lab& lab) {
  for (const Mode& mode : capture_modes) {
    const std::string name = mode.name;
    Site site(lab);
    lab.is(name + ".begin", site.begin(mode.value));
    CUstreamCaptureStatus status{};
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    std::size_t count = 0;
    lab.is(name + ".info",
           lab.cu.StreamGetCaptureInfo(site.stream, &status, nullptr, &graph, &nodes, &count));
    lab.shows(name + ".info.same_graph", graph == site.graph);
    lab.shows(name + ".info.same_node", count == 1 && nodes[0] == site.node);
    lab.is(name + ".work", site.work(site.stream));
    site.end(name);
    site.show_nodes(name);
    site.run(name);
    lab.is(name + ".begin_again", site.begin(mode.value));
    lab.is(name + ".work_again", site.work(site.stream));
    site.end(name + ".again");
    site.show_nodes(name + ".again");
    lab.is(name + ".begin_and_do_nothing", site.begin(mode.value));
    site.end(name + ".nothing");
    site.show_nodes(name + ".nothing");
    lab.is(name + ".destroy", lab.cu.GraphDestroy(site.graph));
  }
}

// Begins that are refused, and what state they leave.
void refused(Lab& lab) {
  const Api& cu = lab.cu;
  Site site(lab), other(lab);
  const auto begin = [&](const char* name, CUstream stream, CUgraph graph, const CUgraphNode* after,
                         std::size_t count, CUstreamCaptureMode mode = thread_local_mode) {
    lab.is(name, cu.StreamBeginCaptureToGraph(stream, graph, after, nullptr, count, mode));
    const std::string state = capture_state(lab, stream);
    lab.shows(std::string(name) + ".then_stream", state);
    if (state == "active") site.end(name);
  };
  begin("no_nodes", site.stream, site.graph, nullptr, 0);
  begin("count_without_nodes", site.stream, site.graph, nullptr, 1);
  begin("foreign_node", site.stream, site.graph, &other.node, 1);
  const CUgraphNode twice[] = {site.node, site.node};
  begin("node_twice", site.stream, site.graph, twice, 2);
  begin("null_graph", site.stream, nullptr, nullptr, 0);
  begin("legacy", CU_STREAM_LEGACY, site.graph, nullptr, 0);
  begin("stream_0", nullptr, site.graph, nullptr, 0);
  begin("unknown_mode", site.stream, site.graph, nullptr, 0, static_cast<CUstreamCaptureMode>(3));
  begin("unknown_mode.null_graph", site.stream, nullptr, nullptr, 0, static_cast<CUstreamCaptureMode>(3));
  begin("legacy.null_graph", CU_STREAM_LEGACY, nullptr, nullptr, 0);
  const CUgraphEdgeData plain{};
  lab.is("plain_edge",
         cu.StreamBeginCaptureToGraph(site.stream, site.graph, &site.node, &plain, 1, thread_local_mode));
  site.end("plain_edge");
  lab.must(cu.StreamBeginCapture(site.stream, thread_local_mode), "begin");
  lab.is("while_capturing", site.begin());
  lab.is("while_capturing.null_graph",
         cu.StreamBeginCaptureToGraph(site.stream, nullptr, nullptr, nullptr, 0, thread_local_mode));
  lab.shows("while_capturing.then_stream", capture_state(lab, site.stream));
  lab.is("while_capturing.end", end_capture(lab, site.stream));
  lab.must(cu.StreamBeginCapture(site.stream, thread_local_mode), "begin");
  Event captured(lab);
  cu.EventRecord(captured, site.stream);
  cu.EventQuery(captured);
  lab.is("while_invalidated", site.begin());
  lab.is("while_invalidated.end", end_capture(lab, site.stream));
  site.show_nodes("afterwards");
  lab.is("destroy", cu.GraphDestroy(site.graph));
}

// What may be done with the graph while it is being captured into. Each may end the process.
void instantiated_meanwhile(Lab& lab) {
  for (const bool given : {true, false}) {
    const std::string name = given ? "given" : "own";
    Site site(lab);
    CUgraph graph = site.graph;
    CUstreamCaptureStatus status{};
    lab.must(given ? site.begin(CU_STREAM_CAPTURE_MODE_RELAXED)
                   : lab.cu.StreamBeginCapture(site.stream, CU_STREAM_CAPTURE_MODE_RELAXED),
             "begin");
    lab.must(site.work(site.stream), "work");
    lab.cu.StreamGetCaptureInfo(site.stream, &status, nullptr, &graph, nullptr, nullptr);
    CUgraphExec exec = nullptr;
    lab.is(name, lab.cu.GraphInstantiateWithFlags(&exec, graph, 0));
    lab.shows(name + ".then_stream", capture_state(lab, site.stream));
    lab.is(name + ".end", end_capture(lab, site.stream));
  }
}

void two_captures_into_one(Lab& lab) {
  Site site(lab);
  Stream second(lab);
  lab.must(site.begin(), "begin");
  lab.is("begin_second",
         lab.cu.StreamBeginCaptureToGraph(second, site.graph, nullptr, nullptr, 0, thread_local_mode));
  lab.shows("first", capture_state(lab, site.stream));
  lab.shows("second", capture_state(lab, second));
  lab.is("work_first", site.work(site.stream));
  lab.is("work_second", site.work(second));
  CUgraph ended = nullptr;
  lab.is("end_second", lab.cu.StreamEndCapture(second, &ended));
  lab.shows("end_second.same_graph", ended == site.graph);
  site.end("first");
  site.show_nodes("afterwards");
  site.run("afterwards");
}

void cloned_meanwhile(Lab& lab) {
  Site site(lab);
  lab.must(site.begin(), "begin");
  lab.must(site.work(site.stream), "work");
  CUgraph clone = nullptr;
  lab.is("clone", lab.cu.GraphClone(&clone, site.graph));
  lab.shows("then_stream", capture_state(lab, site.stream));
  site.end("clone");
  if (clone == nullptr) return;
  lab.shows("clone.nodes", node_types(lab, clone));
  lab.is("clone.destroy", lab.cu.GraphDestroy(clone));
}

// What is left of the graph after a failed capture into it. Each way to fail has a process of its own,
// because the graph may be gone.
template <class Fail>
void after_failure(Lab& lab, Fail fail) {
  Site site(lab);
  lab.must(site.begin(), "begin");
  lab.must(site.work(site.stream), "work");
  static std::atomic<int> destroyed = 0;
  CUuserObject object = nullptr;
  lab.must(lab.cu.UserObjectCreate(
               &object, &destroyed, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1,
               CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
           "user object");
  lab.is("retain", lab.cu.GraphRetainUserObject(site.graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  fail(site);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (destroyed == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  lab.shows("user_object_destroyed", destroyed != 0); // if so, the driver has destroyed the graph
  if (destroyed != 0) return;
  site.show_nodes("left");
  lab.is("add_node", lab.cu.GraphAddEmptyNode(&site.node, site.graph, nullptr, 0));
  Stream good(lab);
  CUgraphExec exec = nullptr;
  lab.is("instantiate", lab.cu.GraphInstantiateWithFlags(&exec, site.graph, 0));
  if (exec != nullptr) lab.is("launch", lab.cu.GraphLaunch(exec, good));
  lab.is("synchronize", lab.cu.StreamSynchronize(good));
  lab.is("begin_again",
         lab.cu.StreamBeginCaptureToGraph(good, site.graph, nullptr, nullptr, 0, thread_local_mode));
  CUgraph ended = nullptr;
  lab.is("end_again", lab.cu.StreamEndCapture(good, &ended));
  lab.is("destroy", lab.cu.GraphDestroy(site.graph));
}

void after_invalidated(Lab& lab) {
  after_failure(lab, [](Site& site) {
    Event captured(site.lab);
    site.cu.EventRecord(captured, site.stream);
    site.cu.EventQuery(captured);
    site.end("failure");
  });
}

void after_unjoined(Lab& lab) {
  after_failure(lab, [](Site& site) {
    Stream fork(site.lab);
    Event event(site.lab);
    site.cu.EventRecord(event, site.stream);
    site.cu.StreamWaitEvent(fork, event, 0);
    site.work(fork);
    site.end("failure");
  });
}

void after_wrong_thread(Lab& lab) {
  after_failure(lab, [](Site& site) {
    CUgraph ended = nullptr;
    site.lab.is("failure.end",
                on_other_thread(site.lab, [&] { return site.cu.StreamEndCapture(site.stream, &ended); }));
    site.lab.shows("failure.then_stream", capture_state(site.lab, site.stream));
  });
}

void after_destroyed_stream(Lab& lab) {
  after_failure(lab, [](Site& site) {
    site.lab.is("failure.destroy_stream", site.cu.StreamDestroy(site.stream.release()));
  });
}

} // namespace

std::vector<Scenario> capture_into_graph_scenarios() {
  return {{"capture_into_graph", good, Place::child},
          {"capture_into_graph.refused", refused, Place::child},
          {"capture_into_graph.instantiated_meanwhile", instantiated_meanwhile, Place::child},
          {"capture_into_graph.cloned_meanwhile", cloned_meanwhile, Place::child},
          {"capture_into_graph.two_captures_into_one", two_captures_into_one, Place::child},
          {"capture_into_graph.after_invalidated", after_invalidated, Place::child},
          {"capture_into_graph.after_unjoined", after_unjoined, Place::child},
          {"capture_into_graph.after_wrong_thread", after_wrong_thread, Place::child},
          {"capture_into_graph.after_destroyed_stream", after_destroyed_stream, Place::child}};
}
#else
std::vector<Scenario> capture_into_graph_scenarios() { return {}; }
#endif

} // namespace transcript
