// SPDX-License-Identifier: MIT
// Memory that graphs allocate and free.
#include "death.hpp"
#include "fixture.hpp"

#include <functional>

namespace sim = cuevent::sim;

namespace {

struct MemoryFixture : Fixture {
  PFN_cuMemAllocAsync_v11020 allocate_on = cu.find<PFN_cuMemAllocAsync_v11020>("cuMemAllocAsync", 11020);
  PFN_cuMemFreeAsync_v11020 free_on = cu.find<PFN_cuMemFreeAsync_v11020>("cuMemFreeAsync", 11020);
  PFN_cuGraphAddMemAllocNode_v11040 add_allocation =
      cu.find<PFN_cuGraphAddMemAllocNode_v11040>("cuGraphAddMemAllocNode", 11040);
  PFN_cuGraphAddMemFreeNode_v11040 add_free =
      cu.find<PFN_cuGraphAddMemFreeNode_v11040>("cuGraphAddMemFreeNode", 11040);
  PFN_cuDeviceGetGraphMemAttribute_v11040 get =
      cu.find<PFN_cuDeviceGetGraphMemAttribute_v11040>("cuDeviceGetGraphMemAttribute", 11040);
  PFN_cuDeviceGraphMemTrim_v11040 trim =
      cu.find<PFN_cuDeviceGraphMemTrim_v11040>("cuDeviceGraphMemTrim", 11040);
  PFN_cuGraphClone_v10000 clone = cu.find<PFN_cuGraphClone_v10000>("cuGraphClone", 10000);
  PFN_cuGraphExecUpdate_v12000 update = cu.find<PFN_cuGraphExecUpdate_v12000>("cuGraphExecUpdate", 12000);

  /// A graph that allocates the words and fills them with 7.
  CUgraph capture_words(CUdeviceptr& words, std::size_t count) {
    CUgraph graph = nullptr;
    OK(cu.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(allocate_on(&words, count * 4, stream));
    OK(cu.fill_32(words, 7, count, stream));
    OK(cu.end_capture(stream, &graph));
    return graph;
  }
  CUgraphExec exec_of(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    OK(cu.instantiate(&exec, graph, flags));
    return exec;
  }
  cuuint64_t reserved() {
    cuuint64_t bytes = 0;
    OK(get(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
  }
  CUDA_MEM_ALLOC_NODE_PARAMS parameters() {
    CUDA_MEM_ALLOC_NODE_PARAMS made{};
    made.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    made.bytesize = 64;
    return made;
  }
};

} // namespace

TEST_CASE_METHOD(MemoryFixture, "other calls use what a launch has allocated, until it is freed",
                 "[graph_memory]") {
  CUdeviceptr words = 0;
  const CUgraph graph = capture_words(words, 1000);
  const CUgraphExec exec = exec_of(graph);
  CHECK(cu.fill_32(words, 1, 1000, stream) == CUDA_ERROR_INVALID_VALUE); // before a launch
  CHECK(free_on(words, stream) == CUDA_ERROR_INVALID_VALUE);
  OK(cu.graph_launch(exec, stream));
  CHECK(cu.graph_launch(exec, stream) == CUDA_ERROR_INVALID_VALUE);
  unsigned last = 0;
  OK(cu.copy_to_host(&last, words + 3996, 4, stream));
  OK(cu.stream_synchronize(stream));
  CHECK(last == 7);
  OK(free_on(words, new_stream()));
  CHECK(free_on(words, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.fill_32(words, 1, 1000, stream) == CUDA_ERROR_INVALID_VALUE);
  OK(cu.graph_launch(exec, stream));
  OK(cu.free(words));
  OK(cu.graph_launch(exec, stream));
  OK(cu.stream_synchronize(stream));
}

TEST_CASE_METHOD(MemoryFixture, "memory that a launch has left lives on without its exec and graph",
                 "[graph_memory]") {
  CUdeviceptr words = 0;
  const CUgraph graph = capture_words(words, 1000);
  const CUgraphExec exec = exec_of(graph);
  sim::hold(stream);
  OK(cu.graph_launch(exec, stream));
  OK(cu.exec_destroy(exec));
  OK(cu.graph_destroy(graph));
  unsigned first = 0;
  sim::release(stream);
  OK(cu.copy_to_host(&first, words, 4, stream));
  OK(cu.stream_synchronize(stream));
  CHECK(first == 7);
  OK(cu.free(words));
}

TEST_CASE_METHOD(MemoryFixture, "a launch in flight keeps memory that it frees itself", "[graph_memory]") {
  CUdeviceptr words = 0;
  CUgraph graph = nullptr;
  OK(cu.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(allocate_on(&words, std::size_t{1} << 20, stream));
  OK(cu.fill_32(words, 7, 1 << 18, stream));
  OK(free_on(words, stream));
  CHECK(free_on(words, stream) == CUDA_ERROR_INVALID_VALUE); // and the capture goes on
  OK(cu.end_capture(stream, &graph));
  const CUgraphExec exec = exec_of(graph);
  sim::hold(stream);
  OK(cu.graph_launch(exec, stream));
  OK(cu.graph_launch(exec, stream));
  OK(cu.exec_destroy(exec));
  OK(cu.graph_destroy(graph));
  sim::release(stream);
  OK(cu.stream_synchronize(stream));
  CHECK(cu.free(words) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(MemoryFixture, "an exec can free by itself before it is launched again", "[graph_memory]") {
  CUdeviceptr words = 0;
  const CUgraph graph = capture_words(words, 10);
  const CUgraphExec exec = exec_of(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  for (int launch = 0; launch < 3; ++launch)
    OK(cu.graph_launch(exec, stream));
  OK(cu.fill_32(words, 1, 10, stream));
  OK(free_on(words, stream));
  OK(cu.graph_launch(exec, stream));
  OK(cu.stream_synchronize(stream));
}

TEST_CASE_METHOD(MemoryFixture, "a graph with memory nodes has one exec, no clones, and keeps its nodes",
                 "[graph_memory]") {
  CUdeviceptr words = 0;
  const CUgraph graph = capture_words(words, 10);
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  CHECK(clone(&other, graph) == CUDA_ERROR_NOT_SUPPORTED);
  OK(cu.graph_create(&other, 0));
  CHECK(cu.add_child_node(&node, other, nullptr, 0, graph) == CUDA_ERROR_NOT_SUPPORTED);
  const CUgraphExec exec = exec_of(graph);
  CUgraphExec second = nullptr;
  CHECK(cu.instantiate(&second, graph, 0) == CUDA_ERROR_NOT_SUPPORTED);
  OK(cu.exec_destroy(exec));
  OK(cu.instantiate(&second, graph, 0));
}

TEST_CASE_METHOD(MemoryFixture, "a graph frees what another one has allocated", "[graph_memory]") {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = parameters();
  CUgraph allocating = nullptr, freeing = nullptr;
  CUgraphNode allocation = nullptr, node = nullptr;
  OK(cu.graph_create(&allocating, 0));
  OK(cu.graph_create(&freeing, 0));
  OK(add_allocation(&allocation, allocating, nullptr, 0, &wanted));
  OK(add_free(&node, freeing, nullptr, 0, wanted.dptr));
  CHECK(add_free(&node, freeing, nullptr, 0, wanted.dptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add_free(&node, allocating, &allocation, 1, wanted.dptr) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec first = exec_of(allocating), second = exec_of(freeing);
  for (int round = 0; round < 2; ++round) {
    OK(cu.graph_launch(first, stream));
    OK(cu.graph_launch(second, stream));
    CHECK(cu.free(wanted.dptr) == CUDA_ERROR_INVALID_VALUE);
  }
  OK(cu.stream_synchronize(stream));
}

TEST_CASE_METHOD(MemoryFixture, "memory freed in its own graph is freed nowhere else", "[graph_memory]") {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = parameters();
  CUgraph graph = nullptr, other = nullptr;
  CUgraphNode allocation = nullptr, node = nullptr;
  OK(cu.graph_create(&graph, 0));
  OK(cu.graph_create(&other, 0));
  OK(add_allocation(&allocation, graph, nullptr, 0, &wanted));
  OK(add_free(&node, graph, &allocation, 1, wanted.dptr));
  CHECK(add_free(&node, other, nullptr, 0, wanted.dptr) == CUDA_ERROR_INVALID_VALUE);
  wanted.bytesize = 0;
  wanted.dptr = 5;
  CHECK(add_allocation(&allocation, graph, nullptr, 0, &wanted) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wanted.dptr == 5);
}

TEST_CASE_METHOD(MemoryFixture, "a device keeps the memory of graphs until it is trimmed", "[graph_memory]") {
  CHECK(reserved() == 0);
  CUdeviceptr words = 0;
  const CUgraph graph = capture_words(words, 10);
  const CUgraphExec exec = exec_of(graph);
  OK(cu.graph_launch(exec, stream));
  CHECK(reserved() == 32 << 20);
  OK(trim(0)); // the memory is allocated
  CHECK(reserved() == 32 << 20);
  OK(cu.free(words));
  CHECK(reserved() == 32 << 20);
  OK(trim(0));
  CHECK(reserved() == 0);
  OK(cu.graph_launch(exec, stream));
  OK(cu.exec_destroy(exec));
  OK(cu.free(words));
  CHECK(reserved() == 32 << 20);
  OK(trim(0));
  CHECK(reserved() == 0);
  CHECK(trim(9) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE_METHOD(MemoryFixture, "a launch frees only what is allocated", "[graph_memory]") {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = parameters();
  CUgraph allocating = nullptr, freeing = nullptr;
  CUgraphNode node = nullptr;
  OK(cu.graph_create(&allocating, 0));
  OK(cu.graph_create(&freeing, 0));
  OK(add_allocation(&node, allocating, nullptr, 0, &wanted));
  OK(add_free(&node, freeing, nullptr, 0, wanted.dptr));
  const CUgraphExec allocates = exec_of(allocating), frees = exec_of(freeing);
  CHECK(cu.graph_launch(frees, stream) == CUDA_ERROR_INVALID_VALUE);
  OK(cu.graph_launch(allocates, stream));
  OK(cu.graph_launch(frees, stream));
  CHECK(cu.graph_launch(frees, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(MemoryFixture, "a graph whose allocation or free was refused counts as one with memory",
                 "[graph_memory]") {
  CUdeviceptr memory = 0;
  OK(cu.allocate(&memory, 64));
  const auto clones = [this](const std::function<void(CUgraph)>& call) {
    CUgraph graph = nullptr, copy = nullptr;
    OK(cu.graph_create(&graph, 0));
    call(graph);
    return clone(&copy, graph);
  };
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = parameters();
  CHECK(clones([](CUgraph) {}) == CUDA_SUCCESS);
  CHECK(clones([&](CUgraph graph) {
          CHECK(add_free(&node, graph, nullptr, 0, memory) == CUDA_ERROR_INVALID_VALUE);
        }) == CUDA_ERROR_NOT_SUPPORTED);
  wanted.bytesize = std::size_t{1} << 50;
  CHECK(clones([&](CUgraph graph) {
          CHECK(add_allocation(&node, graph, nullptr, 0, &wanted) == CUDA_ERROR_OUT_OF_MEMORY);
        }) == CUDA_ERROR_NOT_SUPPORTED);
  wanted.bytesize = 0;
  CHECK(clones([&](CUgraph graph) {
          CHECK(add_allocation(&node, graph, nullptr, 0, &wanted) == CUDA_ERROR_INVALID_VALUE);
        }) == CUDA_SUCCESS);
}

TEST_CASE_METHOD(MemoryFixture, "a node names each place once that may use what it allocates",
                 "[graph_memory]") {
  CUgraph graph = nullptr;
  OK(cu.graph_create(&graph, 0));
  CUmemAccessDesc access[2] = {};
  for (CUmemAccessDesc& each : access) {
    each.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    each.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = parameters();
  CUgraphNode node = nullptr;
  wanted.accessDescs = access;
  const auto add = [&](std::size_t count) {
    wanted.accessDescCount = count;
    return add_allocation(&node, graph, nullptr, 0, &wanted);
  };
  OK(add(1));
  CHECK(add(2) == CUDA_ERROR_INVALID_VALUE);
  access[0].location.id = 1;
  CHECK(add(1) == CUDA_ERROR_INVALID_DEVICE);
  access[0].location = {};
  CHECK(add(1) == CUDA_ERROR_INVALID_VALUE);
  access[0] = access[1];
  access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  CHECK(add(1) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE_METHOD(MemoryFixture, "an exec is updated from the graph that has its memory", "[graph_memory]") {
  CUdeviceptr words = 0;
  const CUgraph graph = capture_words(words, 10);
  const CUgraphExec exec = exec_of(graph);
  OK(update(exec, graph, nullptr));
  const auto death = death_of([] {
    MemoryFixture f;
    CUdeviceptr first = 0, second = 0;
    const CUgraphExec updated = f.exec_of(f.capture_words(first, 10));
    f.update(updated, f.capture_words(second, 10), nullptr);
  });
  CHECK(death.says("an update of an exec that allocates or frees from another graph"));
}
