// SPDX-License-Identifier: MIT
#include "scene.hpp"

namespace transcript {
namespace {

// Loaded once for all scenes: loading the module for each scene would take most of the time.
CUfunction scene_kernel(Lab& lab) {
  lab.second_context(); // it cannot be made during a capture
  static const CUfunction function = lab.kernel("step");
  return function;
}

CUdeviceptr scene_memory(Lab& lab) {
  static const CUdeviceptr memory = [&lab] {
    CUdeviceptr address = 0;
    lab.must(lab.cu.MemAlloc(&address, 256), "cuMemAlloc");
    return address;
  }();
  return memory;
}

} // namespace

Scene::Scene(Lab& laboratory, CUstreamCaptureMode mode, unsigned origin_flags)
    : lab(laboratory), cu(lab.cu), kernel(scene_kernel(lab)), memory(scene_memory(lab)), word(lab.word()),
      origin(lab, origin_flags), fork(lab), bystander(lab), held(lab), gate(lab, held) {
  cu.EventRecord(done, bystander);
  cu.EventRecord(done_end, bystander);
  cu.EventRecord(shared, bystander);
  lab.must(cu.StreamSynchronize(bystander), "synchronize");
  cu.EventRecord(pending, held);

  CUgraphNode node = nullptr;
  CUgraph graph = make_graph(lab);
  lab.must(cu.GraphAddEmptyNode(&node, graph, nullptr, 0), "cuGraphAddEmptyNode");
  lab.must(cu.GraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  cu.GraphDestroy(graph);

  lab.must(cu.StreamBeginCapture(origin, mode), "cuStreamBeginCapture");
  lab.must(cu.EventRecord(captured, origin), "record in capture");
  lab.must(cu.EventRecordWithFlags(external, origin, CU_EVENT_RECORD_EXTERNAL), "external record in capture");
}

Scene::~Scene() {
  gate.open();
  if (capture_state(lab, origin) != "none") end_capture(lab, origin);
  if (exec != nullptr) cu.GraphExecDestroy(exec);
}

void Scene::branch(bool with_work) const {
  lab.must(cu.StreamWaitEvent(fork, captured, 0), "fork");
  if (with_work) lab.must(launch(fork), "work on the fork");
}

void show_end(Scene& scene, const std::string& name) {
  Lab& lab = scene.lab;
  CUgraph graph = nullptr;
  lab.is(name + ".then_end", lab.cu.StreamEndCapture(scene.origin, &graph));
  if (graph != nullptr) {
    lab.shows(name + ".nodes", node_types(lab, graph));
    lab.cu.GraphDestroy(graph);
  }
}

void probe(Lab& lab, const std::string& name, CUstreamCaptureMode mode,
           const std::function<CUresult(Scene&)>& call, unsigned origin_flags) {
  Scene scene(lab, mode, origin_flags);
  lab.is(name, call(scene));
  lab.shows(name + ".then_capture", capture_state(lab, scene.origin));
  show_end(scene, name);
}

} // namespace transcript
