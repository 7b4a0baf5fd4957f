// SPDX-License-Identifier: MIT
// A kernel that runs until it is told to end, and the calls that are made in the meantime.
#include "scenario.hpp"

#include <gpu.hpp>
#include <kernels.hpp>

#include <chrono>

namespace process {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr Clock::duration soon = 5s; // on a busy machine; the kernel runs for longer

template <class Call>
auto soon_returns(Call call, const char* what) {
  step(what);
  const Clock::time_point start = Clock::now();
  const auto result = call();
  expect(Clock::now() - start < soon, std::string(what) + " returns at once");
  return result;
}

void endless() {
  const gpu::Gpu gpu;
  const gpu::Stream stream = gpu.stream(), other = gpu.stream();
  const gpu::Module module = gpu.module(kernels);
  CUfunction kernel = nullptr;
  gpu.module_get_function(&kernel, module, "_Z4spinPjy");
  void* memory = nullptr; // never freed: the driver would first wait for the kernel
  gpu.mem_host_alloc(&memory, sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP);
  auto* const told = static_cast<unsigned*>(memory);
  *told = 0;
  DriverEvent before(gpu.context, EventFlags::timing), behind(gpu.context, EventFlags::timing),
      elsewhere(gpu.context);

  auto address = reinterpret_cast<CUdeviceptr>(told);
  auto bound = static_cast<unsigned long long>(std::chrono::nanoseconds(30s).count());
  void* arguments[] = {&address, &bound};
  before.record(stream);
  gpu.launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  behind.record(stream);

  expect(!soon_returns([&] { return behind.query(); }, "query"), "a pending event is pending");
  expect(!soon_returns([&] { return behind.query_relaxed(); }, "query_relaxed"),
         "a pending event is pending");
  const Clock::time_point start = Clock::now();
  expect(!soon_returns([&] { return behind.synchronize_for(100ms); }, "synchronize_for"),
         "the time of a timed wait is over first");
  expect(Clock::now() - start >= 100ms, "a timed wait waits for its time");
  expect(!soon_returns([&] { return behind.synchronize_until(Clock::now() + 10ms); }, "synchronize_until"),
         "the time of a timed wait is over first");
  expect(soon_returns([&] { return behind.synchronize_for(0ms); }, "synchronize_for no time") == false,
         "no time is a query");
  DriverEvent::Milliseconds time;
  expect(soon_returns([&] { return before.try_elapsed_time(time, behind); }, "elapsed_time") ==
             CUDA_ERROR_NOT_READY,
         "no time is taken of a pending event");
  elsewhere.record(other);
  expect(soon_returns([&] { return elsewhere.synchronize_for(10s); }, "synchronize_for of another stream"),
         "another stream goes on");

  __atomic_store_n(told, 1U, __ATOMIC_RELEASE);
} // a simulated kernel cannot be told; neither this line nor the exit waits for it

} // namespace

std::vector<Scenario> endless_kernel_scenarios() { return {{"endless-kernel", endless}}; }

} // namespace process
