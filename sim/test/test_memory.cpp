// SPDX-License-Identifier: MIT
#include "fixture.hpp"

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

TEST_CASE("memory of the program can be registered once, and is then used as pinned memory") {
  Fixture f;
  alignas(8) static unsigned long long words[2];
  words[0] = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(&words);
  constexpr unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  CHECK(f.cu.write_value_64(f.stream, address, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.host_unregister(words) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(f.cu.host_register(nullptr, 8, flags) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.host_register(words, sizeof words, flags));
  CHECK(f.cu.host_register(words, sizeof words, flags) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(f.cu.host_free(words) == CUDA_ERROR_INVALID_VALUE); // allocated by the program
  OK(f.cu.write_value_64(f.stream, address, 7, 0));
  OK(f.cu.host_unregister(words)); // waits for the work of the context
  CHECK(words[0] == 7);
  CHECK(sim::live_handles().allocations == 0);
  const CUdeviceptr pinned = address;
  CHECK(f.cu.write_value_64(f.stream, pinned, 1, 0) == CUDA_ERROR_INVALID_VALUE);
}
