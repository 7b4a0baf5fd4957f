// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

#include <catch2/catch_approx.hpp>

#include <atomic>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

namespace {

CUgraphExec instantiate(Fixture& f, CUgraph graph) {
  CUgraphExec exec = nullptr;
  OK(f.cu.instantiate(&exec, graph, 0));
  return exec;
}

CUgraph new_graph(Fixture& f) {
  CUgraph graph = nullptr;
  OK(f.cu.graph_create(&graph, 0));
  return graph;
}

/// Launches the graph while an earlier record of `recorded` is held back in another stream, and
/// returns what a query of `asked` says then. Once the record has completed, so has `asked`.
CUresult query_while_held(Fixture& f, CUgraph graph, CUevent recorded, CUevent asked) {
  const CUgraphExec exec = instantiate(f, graph);
  const CUstream held = f.new_stream();
  sim::hold(held);
  OK(f.cu.event_record(recorded, held));
  OK(f.cu.graph_launch(exec, f.stream));
  sim::run_until_idle();
  const CUresult answer = f.cu.event_query(asked);
  sim::release(held);
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(f.cu.event_query(asked) == CUDA_SUCCESS);
  return answer;
}

} // namespace

TEST_CASE("an external event holds the record of the last launch") {
  Fixture f;
  sim::set_kernel("work", {3ms});
  const CUevent start = f.event(), end = f.event();
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(f.cu.event_record_with_flags(start, f.stream, CU_EVENT_RECORD_EXTERNAL));
  OK(f.work(f.stream));
  OK(f.cu.event_record_with_flags(end, f.stream, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
  const CUgraphExec exec = instantiate(f, graph);

  float ms = 0;
  CHECK(f.cu.event_query(end) == CUDA_SUCCESS);
  CHECK(f.cu.event_elapsed(&ms, start, end) == CUDA_ERROR_INVALID_HANDLE);
  for (int launch = 0; launch < 3; ++launch) {
    OK(f.cu.graph_launch(exec, f.stream));
    CHECK(f.cu.event_query(end) == CUDA_ERROR_NOT_READY);
    CHECK(f.cu.event_elapsed(&ms, start, end) == CUDA_ERROR_NOT_READY);
    OK(f.cu.stream_synchronize(f.stream));
    OK(f.cu.event_elapsed(&ms, start, end));
    CHECK(ms == Catch::Approx(3.0013).margin(0.001));
  }
}

TEST_CASE("a record node comes after the event's earlier record if a wait for the event is further behind") {
  Fixture f;
  for (const bool same_event : {false, true})
    for (const bool next_to_it : {false, true}) {
      const CUevent recorded = f.event();
      const CUevent awaited = same_event ? recorded : f.event();
      const CUgraph graph = new_graph(f);
      CUgraphNode first = nullptr, second = nullptr, third = nullptr;
      OK(f.cu.add_record_node(&first, graph, nullptr, 0, recorded));
      OK(f.cu.add_record_node(&second, graph, next_to_it ? nullptr : &first, next_to_it ? 0 : 1, f.event()));
      OK(f.cu.add_wait_node(&third, graph, next_to_it ? &first : &second, 1, awaited));
      const CUresult answer = same_event && !next_to_it ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
      CHECK(query_while_held(f, graph, awaited, recorded) == answer);
    }
}

TEST_CASE("branches of a graph run concurrently") {
  Fixture f;
  sim::set_kernel("work", {5ms});
  const CUstream fork = f.new_stream();
  const CUevent begin = f.event(), joined = f.event();
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(f.cu.event_record(begin, f.stream));
  OK(f.cu.stream_wait(fork, begin, 0));
  OK(f.work(f.stream));
  OK(f.work(fork));
  OK(f.cu.event_record(joined, fork));
  OK(f.cu.stream_wait(f.stream, joined, 0));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
  const CUgraphExec exec = instantiate(f, graph);
  const auto before = sim::now();
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(sim::now() - before < 6ms);
}

TEST_CASE("a user object is destroyed after the graph, its execs and their launches") {
  static std::atomic<int> destroyed;
  destroyed = 0;
  Fixture f;
  const CUgraph graph = new_graph(f);
  CUgraphNode node = nullptr;
  OK(f.cu.add_record_node(&node, graph, nullptr, 0, f.event()));
  CUuserObject object = nullptr;
  OK(f.cu.user_object_create(
      &object, &destroyed, [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, 1,
      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(f.cu.retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = instantiate(f, graph);
  OK(f.cu.graph_destroy(graph));
  CHECK(destroyed == 0);
  CHECK(sim::live_handles().user_objects == 1);
  sim::hold(f.stream);
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.exec_destroy(exec));
  CHECK(destroyed == 0);
  sim::release(f.stream);
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(destroyed == 1);
  CHECK(sim::live_handles().user_objects == 0);
}

TEST_CASE("an event recorded in a capture does not keep the graph alive") {
  static std::atomic<int> destroyed;
  destroyed = 0;
  Fixture f;
  const CUevent inside = f.event();
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(f.cu.event_record(inside, f.stream));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
  CUuserObject object = nullptr;
  OK(f.cu.user_object_create(
      &object, &destroyed, [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, 1,
      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(f.cu.retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  OK(f.cu.graph_destroy(graph));
  CHECK(destroyed == 1);
  CHECK(f.cu.event_query(inside) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the node of a captured kernel tells its launch") {
  Fixture f;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  OK(f.cu.module_load(&module, ".version 8.0 .visible .entry sum(.param .u64 to, .param .u32 n) { ret; }"));
  OK(f.cu.module_function(&kernel, module, "sum"));
  unsigned long long to = 0x1122334455667788;
  unsigned n = 7;
  void* list[] = {&to, &n};
  const auto get = f.cu.find<PFN_cuGraphKernelNodeGetParams_v12000>("cuGraphKernelNodeGetParams", 12000);
  const auto captured = [&](CUfunction of, void** parameters) {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    std::size_t count = 1;
    OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(f.cu.launch(of, 2, 1, 1, 3, 1, 1, 16, f.stream, parameters, nullptr));
    OK(f.cu.end_capture(f.stream, &graph));
    OK(f.cu.graph_nodes(graph, &node, &count));
    return node;
  };
  CUDA_KERNEL_NODE_PARAMS found{};
  OK(get(captured(f.kernel, nullptr), &found));
  CHECK(found.func == f.kernel);
  CHECK(found.kernelParams == nullptr);
  const CUgraphNode node = captured(kernel, list);
  to = 0;
  n = 0; // the node has copies
  OK(get(node, &found));
  CHECK(found.func == kernel);
  CHECK(found.gridDimX == 2);
  CHECK(found.blockDimX == 3);
  CHECK(found.sharedMemBytes == 16);
  CHECK(*static_cast<unsigned long long*>(found.kernelParams[0]) == 0x1122334455667788);
  CHECK(*static_cast<unsigned*>(found.kernelParams[1]) == 7);
}

TEST_CASE("an instantiation with parameters says how it went, and keeps no upload") {
  Fixture f;
  const auto instantiate_with =
      f.cu.find<PFN_cuGraphInstantiateWithParams_v12000>("cuGraphInstantiateWithParams", 12000);
  const auto flags_of = f.cu.find<PFN_cuGraphExecGetFlags_v12000>("cuGraphExecGetFlags", 12000);
  const CUgraph graph = new_graph(f);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  parameters.hUploadStream = f.stream;
  CHECK(instantiate_with(nullptr, graph, &parameters) == CUDA_ERROR_INVALID_VALUE);
  CHECK(parameters.result_out == CUDA_GRAPH_INSTANTIATE_ERROR);
  OK(instantiate_with(&exec, graph, &parameters));
  CHECK(parameters.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
  cuuint64_t flags = 0;
  OK(flags_of(exec, &flags));
  CHECK(flags == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
}

TEST_CASE("an instantiation with parameters names the node that it refuses") {
  Fixture f;
  const auto instantiate_with =
      f.cu.find<PFN_cuGraphInstantiateWithParams_v12000>("cuGraphInstantiateWithParams", 12000);
  const auto add_empty = f.cu.find<PFN_cuGraphAddEmptyNode_v10000>("cuGraphAddEmptyNode", 10000);
  const auto add_edges = f.cu.find<PFN_cuGraphAddDependencies_v10000>("cuGraphAddDependencies", 10000);
  const CUgraph graph = new_graph(f);
  CUgraphNode first = nullptr, second = nullptr;
  OK(add_empty(&first, graph, nullptr, 0));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  CHECK(instantiate_with(&exec, graph, &parameters) == CUDA_ERROR_INVALID_VALUE);
  CHECK(parameters.result_out == CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
  CHECK(parameters.hErrNode_out == first);
  OK(add_empty(&second, graph, &first, 1));
  OK(add_edges(graph, &second, &first, 1));
  parameters.flags = 0;
  CHECK(instantiate_with(&exec, graph, &parameters) == CUDA_ERROR_INVALID_VALUE);
  CHECK(parameters.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  CHECK(parameters.hErrNode_out != nullptr);
}

TEST_CASE("the node of a captured kernel keeps a copy of arguments in one buffer") {
  Fixture f;
  unsigned long long argument = 7;
  std::size_t bytes = sizeof argument;
  void* buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &argument, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                    CU_LAUNCH_PARAM_END};
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(f.cu.launch(f.kernel, 2, 1, 1, 3, 1, 1, 0, f.stream, nullptr, buffer));
  OK(f.cu.end_capture(f.stream, &graph));
  OK(f.cu.graph_nodes(graph, &node, &count));
  argument = 8;
  CUDA_KERNEL_NODE_PARAMS found{};
  OK(f.cu.find<PFN_cuGraphKernelNodeGetParams_v12000>("cuGraphKernelNodeGetParams", 12000)(node, &found));
  CHECK((found.gridDimX == 2 && found.blockDimX == 3));
  CHECK(found.kernelParams == nullptr);
  REQUIRE((found.extra != nullptr && found.extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER));
  CHECK(*static_cast<unsigned long long*>(found.extra[1]) == 7);
}
