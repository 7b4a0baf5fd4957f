// SPDX-License-Identifier: MIT
#include "fixture.hpp"

#include <string>
#include <vector>

namespace sim = cuevent::sim;

TEST_CASE("copies and fills change memory in stream order") {
  Fixture f;
  std::vector<unsigned> values(256, 7), back(256);
  CUdeviceptr memory = 0;
  OK(f.cu.allocate(&memory, values.size() * 4));
  OK(f.cu.copy_to_device(memory, values.data(), values.size() * 4, f.stream));
  OK(f.cu.fill_32(memory, 9, 128, f.stream));
  values.assign(256, 0); // the call copied the pageable memory
  OK(f.cu.copy_to_host(back.data(), memory, back.size() * 4, f.stream));
  CHECK(back[0] == 9);
  CHECK(back[128] == 7);
  CHECK(f.cu.fill_32(memory, 0, 257, f.stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.fill_32(memory + 2, 0, 1, f.stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim::live_handles().allocations == 1);
  OK(f.cu.free(memory));
  CHECK(f.cu.free(memory) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the addresses of memory are multiples of 256") {
  Fixture f;
  for (const std::size_t size : {1U, 100U, 4096U, 1U << 20U}) {
    CUdeviceptr memory = 0;
    void* pinned = nullptr;
    OK(f.cu.allocate(&memory, size));
    OK(f.cu.host_allocate(&pinned, size, 0));
    CHECK(memory % 256 == 0);
    CHECK(reinterpret_cast<CUdeviceptr>(pinned) % 256 == 0);
    OK(f.cu.free(memory));
  }
}

TEST_CASE("a fill without a stream waits for pinned memory and not for device memory") {
  Fixture f;
  constexpr std::size_t size = 1 << 20;
  CUdeviceptr memory = 0;
  void* pinned = nullptr;
  OK(f.cu.allocate(&memory, size));
  OK(f.cu.host_allocate(&pinned, size, 0));
  OK(f.cu.fill_8(memory, 3, size));
  CHECK(f.cu.stream_query(nullptr) == CUDA_ERROR_NOT_READY);
  OK(f.cu.fill_8(reinterpret_cast<CUdeviceptr>(pinned), 4, size));
  CHECK(static_cast<unsigned char*>(pinned)[size - 1] == 4);
  CHECK(f.cu.stream_query(nullptr) == CUDA_SUCCESS);
}

TEST_CASE("a copy on the legacy stream is work of the context of its memory, and a fill is not") {
  Fixture f;
  CUdeviceptr memory = 0;
  OK(f.cu.allocate(&memory, 8));
  const CUstream blocking = f.new_stream(CU_STREAM_DEFAULT);
  const CUevent after = f.event();
  sim::hold(blocking);
  OK(f.cu.event_record(f.event(), blocking));
  CUcontext second = nullptr, popped = nullptr;
  OK(f.cu.context_create(&second, 0, 0));
  const bool copies = GENERATE(true, false);
  CAPTURE(copies);
  OK(copies ? f.cu.copy(memory, memory + 4, 4) : f.cu.fill_8(memory, 1, 4));
  sim::run_until_idle();
  CHECK(f.cu.stream_query(nullptr) == (copies ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS));
  OK(f.cu.context_pop(&popped));
  OK(f.cu.event_record(after, f.new_stream(CU_STREAM_DEFAULT)));
  sim::run_until_idle();
  CHECK(f.cu.event_query(after) == (copies ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS));
  sim::release(blocking);
  sim::run_until_idle();
  CHECK(f.cu.event_query(after) == CUDA_SUCCESS);
}

TEST_CASE("streams write values to pinned memory and wait for them") {
  Fixture f;
  void* pinned = nullptr;
  OK(f.cu.host_allocate(&pinned, 8, CU_MEMHOSTALLOC_PORTABLE));
  auto* const words = static_cast<unsigned*>(pinned);
  words[0] = words[1] = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(pinned);
  const CUstream other = f.new_stream();
  const CUevent reached = f.event();
  OK(f.cu.wait_value_32(other, address, 5, CU_STREAM_WAIT_VALUE_GEQ));
  OK(f.cu.event_record(reached, other));
  sim::run_until_idle();
  CHECK(f.cu.event_query(reached) == CUDA_ERROR_NOT_READY);
  OK(f.cu.write_value_32(f.stream, address, 6, 0));
  sim::run_until_idle();
  CHECK(words[0] == 6);
  CHECK(f.cu.event_query(reached) == CUDA_SUCCESS);
}

TEST_CASE("a device without 64-bit memory operations reports it") {
  Fixture f({.memory_operations_64_bit = false});
  void* pinned = nullptr;
  OK(f.cu.host_allocate(&pinned, 8, 0));
  CHECK(f.cu.write_value_64(f.stream, reinterpret_cast<CUdeviceptr>(pinned), 1, 0) ==
        CUDA_ERROR_NOT_SUPPORTED);
  int can = 1;
  OK(f.cu.device_get_attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
  CHECK(can == 0);
}

TEST_CASE("a write with a flag does nothing, also in a capture") {
  Fixture f;
  void* pinned = nullptr;
  OK(f.cu.host_allocate(&pinned, 4, CU_MEMHOSTALLOC_DEVICEMAP));
  *static_cast<unsigned*>(pinned) = 0;
  const auto write = [&] {
    return f.cu.write_value_32(f.stream, reinterpret_cast<CUdeviceptr>(pinned), 7,
                               CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
  };
  CHECK(write() == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(write() == CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = nullptr;
  std::size_t nodes = 0;
  OK(f.cu.end_capture(f.stream, &graph));
  OK(f.cu.graph_nodes(graph, nullptr, &nodes));
  CHECK(nodes == 0);
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(*static_cast<unsigned*>(pinned) == 0);
}

TEST_CASE("a list of memory operations runs in order, also as one node") {
  Fixture f;
  void* pinned = nullptr;
  OK(f.cu.host_allocate(&pinned, 8, 0));
  auto* const words = static_cast<unsigned*>(pinned);
  words[0] = words[1] = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(pinned);
  CUstreamBatchMemOpParams list[4] = {};
  list[0].writeValue.operation = list[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  list[0].writeValue.address = address;
  list[0].writeValue.value = 1;
  list[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  list[1].waitValue.address = address + 4;
  list[1].waitValue.value = 5;
  list[2].writeValue.address = address;
  list[2].writeValue.value = 2;
  list[3].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  const auto passes = [&] {
    sim::run_until_idle();
    CHECK(words[0] == 1); // it waits for the other word
    words[1] = 5;
    sim::run_until_idle();
    CHECK(words[0] == 2);
    words[0] = words[1] = 0;
  };
  OK(f.cu.memory_operations(f.stream, 4, list, 0));
  passes();
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(f.cu.memory_operations(f.stream, 4, list, 0));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  std::size_t nodes = 0;
  OK(f.cu.end_capture(f.stream, &graph));
  OK(f.cu.graph_nodes(graph, nullptr, &nodes));
  CHECK(nodes == 1);
  OK(f.cu.instantiate(&exec, graph, 0));
  OK(f.cu.graph_launch(exec, f.stream));
  passes();
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters = {};
  CUgraphNode node = nullptr;
  OK(f.cu.context_get(&parameters.ctx));
  parameters.count = 4;
  parameters.paramArray = list;
  OK(f.cu.graph_create(&graph, 0));
  OK(f.cu.add_memory_operations(&node, graph, nullptr, 0, &parameters));
  OK(f.cu.instantiate(&exec, graph, 0));
  OK(f.cu.graph_launch(exec, f.stream));
  passes();
}

TEST_CASE("the operations on values of CUDA 8 and 9 are refused, and those of CUDA 11.7 are not") {
  Fixture f;
  void* words = nullptr;
  OK(f.cu.host_allocate(&words, 16, 0));
  const auto address = reinterpret_cast<CUdeviceptr>(words);
#if CUDA_VERSION >= 12090
  std::string said;
  const auto take = [](void* all, CUlogLevel, char* line, size_t) {
    *static_cast<std::string*>(all) += std::string(line) + "\n";
  };
  CUlogsCallbackHandle log = nullptr;
  OK(f.cu.find<PFN_cuLogsRegisterCallback_v12090>("cuLogsRegisterCallback", 12090)(take, &said, &log));
#endif
  const auto refused = [&](auto call) {
    CHECK(call(f.stream, address, 1, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(call(f.stream, address, 1, 0x100) == CUDA_ERROR_NOT_SUPPORTED);
  };
  refused(f.cu.find<PFN_cuStreamWriteValue32_v8000>("cuStreamWriteValue32", 11060));
  refused(f.cu.find<PFN_cuStreamWaitValue32_v8000>("cuStreamWaitValue32", 8000));
  refused(f.cu.find<PFN_cuStreamWriteValue64_v9000>("cuStreamWriteValue64", 9000));
  refused(f.cu.find<PFN_cuStreamWaitValue64_v9000>("cuStreamWaitValue64", 9000));
#if CUDA_VERSION >= 12090
  OK(f.cu.find<PFN_cuLogsUnregisterCallback_v12090>("cuLogsUnregisterCallback", 12090)(log));
  CHECK(said.starts_with("Stream memory operations are not supported on this device\n"
                         "Returning 801 (CUDA_ERROR_NOT_SUPPORTED) from cuStreamWriteValue32\n"));
#endif
  OK(f.cu.stream_synchronize(f.stream)); // no call has put anything on the stream
  OK(f.cu.write_value_32(f.stream, address, 1, 0));
}
