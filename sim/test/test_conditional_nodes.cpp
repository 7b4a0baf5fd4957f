// SPDX-License-Identifier: MIT
// Conditional handles and nodes. What a device was measured to answer, and what the control call changes.
#include "death.hpp"
#include "fixture.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#if CUDA_VERSION >= 12030

namespace sim = cuevent::sim;

namespace {

struct ConditionalFixture : Fixture {
  explicit ConditionalFixture(const sim::Options& options = {}) : Fixture(options) {
    OK(cu.allocate(&words, 64));
  }

  PFN_cuGraphConditionalHandleCreate_v12030 new_handle =
      cu.find<PFN_cuGraphConditionalHandleCreate_v12030>("cuGraphConditionalHandleCreate", 12030);
  PFN_cuGraphAddNode_v12030 add_node = cu.find<PFN_cuGraphAddNode_v12030>("cuGraphAddNode", 12030);
  PFN_cuGraphAddNode_v12020 add_without_edges = cu.find<PFN_cuGraphAddNode_v12020>("cuGraphAddNode", 12020);
  PFN_cuGraphNodeSetParams_v12020 set_parameters =
      cu.find<PFN_cuGraphNodeSetParams_v12020>("cuGraphNodeSetParams", 12020);
  PFN_cuGraphExecNodeSetParams_v12020 set_exec_parameters =
      cu.find<PFN_cuGraphExecNodeSetParams_v12020>("cuGraphExecNodeSetParams", 12020);
  PFN_cuGraphInstantiateWithParams_v12000 instantiate_with =
      cu.find<PFN_cuGraphInstantiateWithParams_v12000>("cuGraphInstantiateWithParams", 12000);
  PFN_cuGraphAddMemsetNode_v10000 add_fill =
      cu.find<PFN_cuGraphAddMemsetNode_v10000>("cuGraphAddMemsetNode", 10000);
  PFN_cuGraphAddMemcpyNode_v10000 add_copy =
      cu.find<PFN_cuGraphAddMemcpyNode_v10000>("cuGraphAddMemcpyNode", 10000);
  PFN_cuGraphAddChildGraphNode_v10000 add_child =
      cu.find<PFN_cuGraphAddChildGraphNode_v10000>("cuGraphAddChildGraphNode", 10000);
  PFN_cuGraphChildGraphNodeGetGraph_v10000 child_graph =
      cu.find<PFN_cuGraphChildGraphNodeGetGraph_v10000>("cuGraphChildGraphNodeGetGraph", 10000);
  PFN_cuGraphGetNodes_v10000 get_nodes = cu.find<PFN_cuGraphGetNodes_v10000>("cuGraphGetNodes", 10000);
  PFN_cuGraphNodeSetEnabled_v11060 set_enabled =
      cu.find<PFN_cuGraphNodeSetEnabled_v11060>("cuGraphNodeSetEnabled", 11060);
  PFN_cuGraphClone_v10000 clone = cu.find<PFN_cuGraphClone_v10000>("cuGraphClone", 10000);
  PFN_cuGraphExecUpdate_v12000 update = cu.find<PFN_cuGraphExecUpdate_v12000>("cuGraphExecUpdate", 12000);
  PFN_cuGraphDestroyNode_v10000 destroy_node =
      cu.find<PFN_cuGraphDestroyNode_v10000>("cuGraphDestroyNode", 10000);
  PFN_cuStreamBeginCaptureToGraph_v12030 capture_into =
      cu.find<PFN_cuStreamBeginCaptureToGraph_v12030>("cuStreamBeginCaptureToGraph", 12030);
  PFN_cuGraphAddHostNode_v10000 add_host =
      cu.find<PFN_cuGraphAddHostNode_v10000>("cuGraphAddHostNode", 10000);
  PFN_cuGraphAddKernelNode_v12000 add_kernel_node =
      cu.find<PFN_cuGraphAddKernelNode_v12000>("cuGraphAddKernelNode", 12000);
  PFN_cuGraphAddDependencies_v10000 add_dependencies =
      cu.find<PFN_cuGraphAddDependencies_v10000>("cuGraphAddDependencies", 10000);
  PFN_cuGraphNodeGetType_v10000 type_of = cu.find<PFN_cuGraphNodeGetType_v10000>("cuGraphNodeGetType", 10000);
  PFN_cuStreamGetCaptureInfo_v11030 capture_info =
      cu.find<PFN_cuStreamGetCaptureInfo_v11030>("cuStreamGetCaptureInfo", 11030);
  PFN_cuStreamUpdateCaptureDependencies_v11030 go_on_behind =
      cu.find<PFN_cuStreamUpdateCaptureDependencies_v11030>("cuStreamUpdateCaptureDependencies", 11030);
  PFN_cuMemcpyDtoH_v3020 read = cu.find<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH", 3020);

  CUgraph new_graph() {
    CUgraph made = nullptr;
    OK(cu.graph_create(&made, 0));
    return made;
  }
  CUgraphConditionalHandle handle_of(CUgraph graph, unsigned initial = 0,
                                     unsigned flags = CU_GRAPH_COND_ASSIGN_DEFAULT) {
    CUgraphConditionalHandle made = 0;
    OK(new_handle(&made, graph, context, initial, flags));
    return made;
  }
  CUgraphNodeParams parameters(CUgraphConditionalHandle handle, int type, unsigned size) const {
    CUgraphNodeParams made{};
    made.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    made.conditional.handle = handle;
    made.conditional.type = static_cast<CUgraphConditionalNodeType>(type);
    made.conditional.size = size;
    made.conditional.ctx = context;
    return made;
  }
  struct Made {
    CUgraph graph;
    CUgraphConditionalHandle handle;
    CUgraphNode node;
    std::vector<CUgraph> bodies;
  };
  /// A node whose bodies each count in a word of their own.
  Made add(CUgraph graph, int type, unsigned size, unsigned initial, unsigned flags = 1) {
    Made made{graph, handle_of(graph, initial, flags), nullptr, {}};
    CUgraphNodeParams wanted = parameters(made.handle, type, size);
    OK(add_node(&made.node, graph, nullptr, nullptr, 0, &wanted));
    made.bodies.assign(wanted.conditional.phGraph_out, wanted.conditional.phGraph_out + size);
    return made;
  }
  Made counting(int type, unsigned size, unsigned initial, unsigned flags = 1) {
    Made made = add(new_graph(), type, size, initial, flags);
    for (unsigned i = 0; i < size; ++i)
      fill(made.bodies[i], i);
    return made;
  }
  /// Stores a 1 in the byte.
  CUgraphNode fill(CUgraph graph, unsigned place) {
    CUDA_MEMSET_NODE_PARAMS wanted{};
    wanted.dst = words + place;
    wanted.value = 1;
    wanted.elementSize = 1;
    wanted.width = wanted.height = 1;
    CUgraphNode made = nullptr;
    OK(add_fill(&made, graph, nullptr, 0, &wanted, context));
    return made;
  }
  CUgraphExec exec_of(CUgraph graph) {
    CUgraphExec exec = nullptr;
    OK(cu.instantiate(&exec, graph, 0));
    return exec;
  }
  /// Which bodies a launch runs: "01" if only the second one.
  std::string ran(CUgraphExec exec, std::size_t bodies = 2) {
    char bytes[4] = {};
    OK(cu.fill_32(words, 0, 4, stream));
    OK(cu.graph_launch(exec, stream));
    OK(cu.stream_synchronize(stream));
    OK(read(bytes, words, sizeof bytes));
    std::string text;
    for (std::size_t i = 0; i < bodies; ++i)
      text += static_cast<char>('0' + bytes[i]);
    return text;
  }
  /// How long the kernels of a launch take, each 10 us.
  long long microseconds(CUgraphExec exec) {
    const auto begin = sim::now();
    OK(cu.graph_launch(exec, stream));
    sim::run_until_idle();
    return std::chrono::duration_cast<std::chrono::microseconds>(sim::now() - begin).count();
  }
  CUgraphNode add_kernel(CUgraph graph) {
    CUDA_KERNEL_NODE_PARAMS launch{};
    launch.func = kernel;
    launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
    launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
    CUgraphNode made = nullptr;
    OK(add_kernel_node(&made, graph, nullptr, 0, &launch));
    return made;
  }

  CUdeviceptr words = 0;
};

sim::Options lenient(int driver_version) {
  sim::Options options;
  options.driver_version = driver_version;
  options.unmodelled = sim::Unmodelled::error;
  return options;
}

struct LenientFixture : ConditionalFixture {
  explicit LenientFixture(int driver_version = sim::usual_driver_version)
      : ConditionalFixture(lenient(driver_version)) {}
  ~LenientFixture() { sim::take_unmodelled(); } // other tests begin without
};

constexpr int if_type = 0, while_type = 1, switch_type = 2;

} // namespace

TEST_CASE_METHOD(ConditionalFixture, "conditional handles are numbers of their graph", "[conditional]") {
  const CUgraph graph = new_graph(), other = new_graph();
  CUgraphConditionalHandle handle = 77;
  CHECK(new_handle(&handle, graph, nullptr, 0, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(new_handle(nullptr, graph, context, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(new_handle(&handle, nullptr, context, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  for (const unsigned flags : {2U, 3U, 4U, ~0U})
    CHECK(new_handle(&handle, graph, context, 0, flags) == CUDA_ERROR_INVALID_VALUE);
  CHECK(handle == 77);
  CHECK(handle_of(graph, 5) == 1);
  CHECK(handle_of(graph, 5, 0) == 2);
  CHECK(handle_of(other) == 1);
  CUcontext popped = nullptr;
  OK(cu.context_pop(&popped));
  CHECK(handle_of(graph) == 3); // without a current context
}

TEST_CASE_METHOD(ConditionalFixture, "each type of conditional node has its numbers of bodies",
                 "[conditional]") {
  const std::map<int, std::vector<unsigned>> accepted = {
      {if_type, {1, 2}}, {while_type, {1}}, {switch_type, {1, 2, 3, 100}}, {3, {}}, {-1, {}}};
  for (const auto& [type, sizes] : accepted)
    for (const unsigned size : {0U, 1U, 2U, 3U, 100U}) {
      CAPTURE(type, size);
      const CUgraph graph = new_graph();
      CUgraphNodeParams wanted = parameters(handle_of(graph, 1), type, size);
      CUgraphNode node = nullptr;
      const bool fits = std::find(sizes.begin(), sizes.end(), size) != sizes.end();
      CHECK(add_node(&node, graph, nullptr, nullptr, 0, &wanted) ==
            (fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
      REQUIRE((wanted.conditional.phGraph_out != nullptr) == fits);
      if (!fits) continue;
      CUgraphNodeType found{};
      OK(type_of(node, &found));
      CHECK(found == CU_GRAPH_NODE_TYPE_CONDITIONAL);
      for (unsigned i = 0; i < size; ++i) {
        std::size_t count = 9;
        OK(cu.graph_nodes(wanted.conditional.phGraph_out[i], nullptr, &count));
        CHECK(count == 0);
      }
      const CUgraphExec exec = exec_of(graph);
      if (type == while_type) continue;
      OK(cu.graph_launch(exec, stream));
      OK(cu.stream_synchronize(stream));
    }
}

TEST_CASE_METHOD(ConditionalFixture, "a handle has one node", "[conditional]") {
  const CUgraph graph = new_graph();
  const auto handle = handle_of(graph);
  CUgraphNode node = nullptr;
  const auto added = [&](CUgraphConditionalHandle named, CUcontext in, CUgraph into, CUgraphNode* out) {
    CUgraphNodeParams wanted = parameters(named, if_type, 1);
    wanted.conditional.ctx = in;
    return add_node(out, into, nullptr, nullptr, 0, &wanted);
  };
  CHECK(added(0, context, graph, &node) == CUDA_ERROR_INVALID_VALUE);
  CHECK(added(123456789, context, graph, &node) == CUDA_ERROR_INVALID_VALUE);
  CHECK(added(handle, nullptr, graph, &node) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(added(handle, context, nullptr, &node) == CUDA_ERROR_INVALID_VALUE);
  CHECK(added(handle, context, graph, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(added(handle, context, new_graph(), &node) == CUDA_ERROR_INVALID_VALUE); // it has no handles
  CHECK(added(handle, context, graph, &node) == CUDA_SUCCESS); // a refused node has not used the handle
  CHECK(added(handle, context, graph, &node) == CUDA_ERROR_INVALID_VALUE);

  CUgraphNodeParams wanted = parameters(handle_of(graph), if_type, 1);
  CUgraphNode behind = nullptr;
  CHECK(add_without_edges(&behind, graph, &node, 1, &wanted) == CUDA_SUCCESS);
  const CUgraphEdgeData plain{};
  wanted = parameters(handle_of(graph), if_type, 1);
  CHECK(add_node(&behind, graph, &node, &plain, 1, &wanted) == CUDA_SUCCESS);
  exec_of(graph);
}

TEST_CASE_METHOD(ConditionalFixture, "a graph with an unused conditional handle is not instantiated",
                 "[conditional]") {
  const CUgraph graph = new_graph();
  handle_of(graph);
  CUgraphExec exec = nullptr;
  CHECK(cu.instantiate(&exec, graph, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(ConditionalFixture, "a conditional node runs the body of its handle's value",
                 "[conditional]") {
  for (const unsigned initial : {0U, 1U, 2U, 3U, 7U}) {
    CAPTURE(initial);
    const CUgraphExec with_default = exec_of(counting(if_type, 2, initial).graph);
    const CUgraphExec without = exec_of(counting(if_type, 2, initial, 0).graph);
    const CUgraphExec one_of = exec_of(counting(switch_type, 2, initial).graph);
    const CUgraphExec first_of = exec_of(counting(switch_type, 2, initial, 0).graph);
    for (int launch = 0; launch < 2; ++launch) {
      CHECK(ran(with_default) == (initial != 0 ? "10" : "01"));
      CHECK(ran(without) == "01");
      CHECK(ran(one_of) == (initial == 0 ? "10" : initial == 1 ? "01" : "00"));
      CHECK(ran(first_of) == "10");
    }
  }
  CHECK(ran(exec_of(counting(if_type, 1, 0).graph), 1) == "0");
  CHECK(ran(exec_of(counting(while_type, 1, 0).graph), 1) == "0");
}

TEST_CASE_METHOD(ConditionalFixture, "a test chooses what a kernel would", "[conditional]") {
  const Made chooses = counting(if_type, 2, 0);
  const CUgraphExec exec = exec_of(chooses.graph), untouched = exec_of(chooses.graph);
  sim::set_conditional(exec, chooses.handle, 1);
  CHECK(ran(exec) == "10");
  CHECK(ran(exec) == "10"); // until the next call
  sim::set_conditional(exec, chooses.handle, 0);
  CHECK(ran(exec) == "01");
  CHECK(ran(untouched) == "01");

  const Made one_of = counting(switch_type, 3, 0);
  const CUgraphExec switched = exec_of(one_of.graph);
  sim::set_conditional(switched, one_of.handle, 2);
  CHECK(ran(switched, 3) == "001");
  sim::set_conditional(switched, one_of.handle, 3);
  CHECK(ran(switched, 3) == "000");

  const Death death = death_of([&] { sim::set_conditional(exec, 2, 1); });
  CHECK(death.aborted);
  CHECK(death.says("the graph has no conditional handle 2"));
}

TEST_CASE_METHOD(ConditionalFixture, "a WHILE node makes the rounds that a test asks for, one after another",
                 "[conditional]") {
  const Made outer = add(new_graph(), while_type, 1, 1);
  add_kernel(outer.bodies[0]);
  const CUgraphExec exec = exec_of(outer.graph);
  for (const unsigned rounds : {0U, 1U, 3U}) {
    sim::set_conditional(exec, outer.handle, rounds);
    CHECK(microseconds(exec) == 10 * static_cast<long long>(rounds) + 1);
  }

  const Made inner = add(outer.bodies[0], while_type, 1, 0); // next to the kernel
  CHECK(inner.handle == outer.handle + 1);                   // the body has the handles of its graph
  add_kernel(inner.bodies[0]);
  const CUgraphExec nested = exec_of(outer.graph);
  sim::set_conditional(nested, outer.handle, 3);
  CHECK(microseconds(nested) == 31);
  sim::set_conditional(nested, inner.handle, 2);
  CHECK(microseconds(nested) == 61);
}

TEST_CASE_METHOD(ConditionalFixture, "work waits for a body, and a body for the nodes before it",
                 "[conditional]") {
  const Made made = add(new_graph(), if_type, 1, 1);
  const CUgraphNode before = add_kernel(made.graph), behind = add_kernel(made.graph);
  const CUgraphNode from[] = {before, made.node}, to[] = {made.node, behind};
  OK(add_dependencies(made.graph, from, to, 2));
  add_kernel(made.bodies[0]);
  CHECK(microseconds(exec_of(made.graph)) == 31);
}

TEST_CASE_METHOD(LenientFixture, "a WHILE node without an end is not modelled", "[conditional]") {
  const Made made = counting(while_type, 1, 1);
  const CUgraphExec exec = exec_of(made.graph);
  CHECK(cu.graph_launch(exec, stream) == CUDA_ERROR_NOT_SUPPORTED);
  const auto told = sim::take_unmodelled();
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("set_conditional") != std::string::npos);
  sim::set_conditional(exec, made.handle, 1);
  CHECK(ran(exec, 1) == "1");
}

TEST_CASE_METHOD(ConditionalFixture, "the instantiation refuses a body with other work", "[conditional]") {
  const CUevent marked = event();
  const auto refused = [&](const auto& add_to) {
    const Made made = add(new_graph(), if_type, 1, 1);
    const CUgraphNode blamed = add_to(made.bodies[0]);
    CUDA_GRAPH_INSTANTIATE_PARAMS wanted{};
    CUgraphExec exec = nullptr;
    const CUresult result = instantiate_with(&exec, made.graph, &wanted);
    CHECK(wanted.result_out == (result == CUDA_SUCCESS
                                    ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                    : CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED));
    CHECK(wanted.hErrNode_out == (result == CUDA_SUCCESS ? nullptr : blamed));
    return result;
  };
  const auto host = [&](CUgraph body) {
    CUDA_HOST_NODE_PARAMS function{};
    function.fn = [](void*) {};
    CUgraphNode made = nullptr;
    OK(add_host(&made, body, nullptr, 0, &function));
    return made;
  };
  CHECK(refused(host) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused([&](CUgraph body) {
          CUgraphNode made = nullptr;
          OK(cu.add_record_node(&made, body, nullptr, 0, marked));
          return made;
        }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused([&](CUgraph body) { // in a body of a body
          return host(add(body, if_type, 1, 1).bodies[0]);
        }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused([&](CUgraph body) { return add_kernel(body); }) == CUDA_SUCCESS);
  CHECK(refused([&](CUgraph body) { return fill(body, 0); }) == CUDA_SUCCESS);
  CHECK(refused([&](CUgraph body) { return add(body, while_type, 1, 0).node; }) == CUDA_SUCCESS);
}

TEST_CASE_METHOD(ConditionalFixture, "streams capture into bodies", "[conditional]") {
  const Made made = add(new_graph(), if_type, 1, 1);
  OK(capture_into(stream, made.bodies[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(work(stream));
  CUgraph captured = nullptr;
  OK(cu.end_capture(stream, &captured));
  CHECK(captured == made.bodies[0]);
  CHECK(microseconds(exec_of(made.graph)) == 11);

  // In the graph of a capture, whose node the next work depends on.
  CUstream inside = new_stream();
  OK(cu.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status{};
  OK(capture_info(stream, &status, nullptr, &graph, nullptr, nullptr));
  Made nested = add(graph, if_type, 1, 1);
  OK(go_on_behind(stream, &nested.node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(capture_into(inside, nested.bodies[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(work(inside));
  OK(cu.end_capture(inside, &captured));
  OK(work(stream));
  OK(cu.end_capture(stream, &captured));
  CHECK(microseconds(exec_of(captured)) == 21);
}

TEST_CASE_METHOD(ConditionalFixture, "a body belongs to its node", "[conditional]") {
  const Made made = counting(if_type, 1, 1);
  const CUgraph body = made.bodies[0], parent = new_graph();
  CUgraph copy = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CHECK(cu.graph_destroy(body) == CUDA_ERROR_INVALID_VALUE);
  CHECK(clone(&copy, body) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(add_child(&node, parent, nullptr, 0, body) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cu.instantiate(&exec, body, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(clone(&copy, made.graph) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(add_child(&node, parent, nullptr, 0, made.graph) == CUDA_ERROR_NOT_SUPPORTED);
  CUgraphNodeParams wanted = parameters(made.handle, if_type, 1);
  CHECK(set_parameters(made.node, &wanted) == CUDA_ERROR_NOT_SUPPORTED);

  exec = exec_of(made.graph);
  OK(destroy_node(made.node));
  const Death death = death_of([] {
    ConditionalFixture there;
    const Made gone = there.add(there.new_graph(), if_type, 1, 1);
    there.destroy_node(gone.node);
    std::size_t number = 0;
    there.cu.graph_nodes(gone.bodies[0], nullptr, &number);
  });
  CHECK(death.says("destroyed with its node"));
  CHECK(ran(exec, 1) == "1"); // it is a copy
  OK(cu.graph_destroy(made.graph));
  OK(cu.graph_destroy(parent));
  CHECK(sim::live_handles().graphs == 0);
}

TEST_CASE_METHOD(ConditionalFixture, "a graph ends with the bodies in it", "[conditional]") {
  const Made outer = add(new_graph(), switch_type, 3, 1);
  add(outer.bodies[1], if_type, 2, 1);
  CHECK(sim::live_handles().graphs == 6);
  OK(cu.graph_destroy(outer.graph));
  CHECK(sim::live_handles().graphs == 0);

  // A capture that failed has destroyed its graph.
  OK(cu.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status{};
  OK(capture_info(stream, &status, nullptr, &graph, nullptr, nullptr));
  add(graph, if_type, 2, 1);
  CHECK(cu.stream_synchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cu.end_capture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(sim::live_handles().graphs == 0);

  for (const bool the_node : {false, true}) {
    const Death death = death_of([the_node] {
      ConditionalFixture there;
      const Made made = there.add(there.new_graph(), if_type, 1, 1);
      there.capture_into(there.stream, made.bodies[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
      the_node ? there.destroy_node(made.node) : there.cu.graph_destroy(made.graph);
    });
    CHECK(death.says("a capture that has not ended"));
  }
}

TEST_CASE_METHOD(ConditionalFixture, "an exec is updated from a graph with the same conditional nodes",
                 "[conditional]") {
  const CUgraphExec exec = exec_of(counting(if_type, 2, 0).graph);
  CHECK(ran(exec) == "01");
  CUgraphExecUpdateResultInfo info{};
  const Made same = add(new_graph(), if_type, 2, 1);
  fill(same.bodies[0], 2);
  fill(same.bodies[1], 3);
  OK(update(exec, same.graph, &info));
  CHECK(ran(exec, 4) == "0010"); // the values and the bodies of the second graph
}

TEST_CASE_METHOD(ConditionalFixture, "an exec keeps its bodies", "[conditional]") {
  const Made made = counting(if_type, 2, 0);
  const CUgraphExec exec = exec_of(made.graph);
  CUgraphExecUpdateResultInfo info{};
  const auto refused_with = [&](CUgraphExecUpdateResult expected, CUgraph from) {
    CHECK(update(exec, from, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(info.result == expected);
  };
  refused_with(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, counting(if_type, 1, 1).graph);
  refused_with(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, counting(switch_type, 2, 1).graph);
  refused_with(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, add(new_graph(), if_type, 2, 1).graph);
  CHECK(update(exec, made.bodies[0], &info) == CUDA_ERROR_INVALID_VALUE);
  CHECK(ran(exec) == "01");

  CUgraphNodeParams wanted = parameters(made.handle, if_type, 2);
  CHECK(set_exec_parameters(exec, made.node, &wanted) == CUDA_ERROR_NOT_SUPPORTED);
  // Also after an update, the exec knows the nodes that it was made from.
  const Made same = counting(if_type, 2, 1);
  OK(update(exec, same.graph, &info));
  CUgraphNode inside = nullptr;
  std::size_t count = 1;
  OK(get_nodes(made.bodies[0], &inside, &count));
  OK(set_enabled(exec, inside, 0));
  CHECK(ran(exec) == "00");
  OK(get_nodes(same.bodies[0], &inside, &count));
  CHECK(set_enabled(exec, inside, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(ConditionalFixture, "a body has no pageable memory, and a node gives its handle back",
                 "[conditional]") {
  CUgraphNode node = nullptr;
  const Made copies = add(new_graph(), if_type, 1, 1);
  static char bytes[16];
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = bytes;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = words;
  copy.WidthInBytes = copy.Height = copy.Depth = 1;
  OK(add_copy(&node, copies.bodies[0], nullptr, 0, &copy, context));
  CUgraphExec refused = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS asked{};
  CHECK(instantiate_with(&refused, copies.graph, &asked) == CUDA_ERROR_INVALID_VALUE);
  CHECK(static_cast<int>(asked.result_out) == 4); // several contexts
  CHECK(asked.hErrNode_out == node);

  OK(destroy_node(copies.node));
  CHECK(instantiate_with(&refused, copies.graph, &asked) == CUDA_ERROR_INVALID_VALUE);
  CHECK(static_cast<int>(asked.result_out) == 5); // a handle without a node
  CHECK(asked.hErrNode_out == nullptr);
  CUgraphNodeParams wanted = parameters(copies.handle, if_type, 1);
  wanted.reserved0[2] = 1;
  CHECK(add_node(&node, copies.graph, nullptr, nullptr, 0, &wanted) == CUDA_ERROR_INVALID_VALUE);
  wanted.reserved0[2] = 0;
  OK(add_node(&node, copies.graph, nullptr, nullptr, 0, &wanted));
  exec_of(copies.graph);
}

TEST_CASE("a graph whose body was destroyed by a failed capture cannot be instantiated", "[conditional]") {
  const Death death = death_of([] {
    ConditionalFixture there;
    const ConditionalFixture::Made made = there.add(there.new_graph(), if_type, 1, 1);
    there.capture_into(there.stream, made.bodies[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
    there.cu.stream_synchronize(there.stream);
    CUgraph captured = nullptr;
    if (there.cu.end_capture(there.stream, &captured) != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return;
    there.exec_of(made.graph);
  });
  CHECK(death.says("a failed capture into the body of a conditional node"));
}

TEST_CASE_METHOD(ConditionalFixture, "an update takes unused handles, and no node with another handle",
                 "[conditional]") {
  const Made made = counting(if_type, 1, 1);
  const CUgraphExec exec = exec_of(made.graph);
  CUgraphExecUpdateResultInfo info{};
  const Made more = counting(if_type, 1, 1);
  handle_of(more.graph);
  OK(update(exec, more.graph, &info));
  const CUgraph second = new_graph();
  handle_of(second);
  const Made other = add(second, if_type, 1, 1);
  fill(other.bodies[0], 1);
  CHECK(update(exec, second, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE); // by its second handle
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
}

TEST_CASE_METHOD(ConditionalFixture, "an exec keeps the user objects of bodies", "[conditional]") {
  static std::atomic<bool> ended;
  ended = false;
  CUuserObject object = nullptr;
  OK(cu.user_object_create(
      &object, nullptr, [](void*) { ended = true; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  const Made holds = add(new_graph(), if_type, 1, 1);
  OK(cu.retain_user_object(holds.bodies[0], object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = exec_of(holds.graph);
  OK(destroy_node(holds.node));
  CHECK(!ended);
  OK(cu.exec_destroy(exec));
  sim::run_until_idle();
  CHECK(ended);
}

TEST_CASE_METHOD(ConditionalFixture,
                 "a conditional node in a child graph runs its body by the handle's value", "[conditional]") {
  CUgraphNode node = nullptr;
  CUgraph inside = nullptr;
  const CUgraph parent = new_graph();
  OK(add_child(&node, parent, nullptr, 0, new_graph()));
  OK(child_graph(node, &inside));
  const unsigned initial = GENERATE(0u, 1u);
  const Made made = add(inside, if_type, 1, initial);
  fill(made.bodies[0], 0);
  CHECK(ran(exec_of(parent), 1) == std::to_string(initial));
}

TEST_CASE_METHOD(LenientFixture, "nobody knows what a device does with other conditional nodes",
                 "[conditional]") {
  CUgraphNode node = nullptr;
  CUgraph inside = nullptr;
  const CUgraph parent = new_graph();
  OK(add_child(&node, parent, nullptr, 0, new_graph()));
  OK(child_graph(node, &inside));
  add(inside, while_type, 1, 1); // whose end no test can choose
  CHECK(cu.graph_launch(exec_of(parent), stream) == CUDA_ERROR_NOT_SUPPORTED);
  handle_of(inside);
  CUgraphExec refused = nullptr;
  CHECK(cu.instantiate(&refused, parent, 0) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("drivers before CUDA 12.8 have other conditional nodes", "[conditional]") {
  LenientFixture fixture(12040);
  fixture.add(fixture.new_graph(), if_type, 1, 1);
  const CUgraph graph = fixture.new_graph();
  CUgraphNode node = nullptr;
  CUgraphNodeParams wanted = fixture.parameters(fixture.handle_of(graph), if_type, 2);
  CHECK(fixture.add_node(&node, graph, nullptr, nullptr, 0, &wanted) == CUDA_ERROR_NOT_SUPPORTED);
  wanted = fixture.parameters(1, switch_type, 1);
  CHECK(fixture.add_node(&node, graph, nullptr, nullptr, 0, &wanted) == CUDA_ERROR_NOT_SUPPORTED);
}

#endif
