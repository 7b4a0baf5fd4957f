// SPDX-License-Identifier: MIT
// A completion queue with streams whose work fails.
#include "kernel.hpp"
#include "scenario.hpp"

#include <cuevent/completion_queue.hpp>

#include <poll.h>
#include <vector>

namespace process {

namespace {

using namespace cuevent;

void fault_told_by_completions() {
  const gpu::Gpu gpu;
  const gpu::Stream faulty = gpu.stream(), other = gpu.stream();
  const Kernel kernel(gpu, "write_illegal_address");
  CompletionQueue queue(gpu.context);

  constexpr std::size_t each = 10;
  std::vector<CUresult> of_faulty, of_other;
  DriverEvent behind(gpu.context);
  gpu::Gate gate(gpu, faulty); // so that all work is submitted before the fault
  kernel.launch(faulty);
  behind.record(faulty);
  behind.wait(other);
  for (std::size_t i = 0; i < each; ++i) {
    queue.when_complete(faulty, [&](CUresult result) { of_faulty.push_back(result); });
    queue.when_complete(other, [&](CUresult result) { of_other.push_back(result); });
  }
  expect(queue.poll() == 0, "nothing before the kernel runs");
  gate.open();
  step("polls until the fault has reached every callback");
  while (queue.pending() != 0)
    queue.poll();
  expect(of_faulty == std::vector(each, CUDA_ERROR_ILLEGAL_ADDRESS),
         "the fault, for each callback behind it");
  expect(of_other == std::vector(each, CUDA_ERROR_ILLEGAL_ADDRESS), "the fault, for each that was pending");
  expect_throw<DeviceFault>([&] { queue.when_complete(other, [](CUresult) {}); }, "a later submission");
  expect(queue.poll() == 0, "no callback is left to poll");
} // the rest is destroyed without output

/// The thread sleeps until the queue's descriptor is readable. No other thread wakes it.
void fault_wakes_armed_queue() {
  const gpu::Gpu gpu;
  const gpu::Stream faulty = gpu.stream(), other = gpu.stream();
  const Kernel kernel(gpu, "write_illegal_address");
  CompletionQueue queue(gpu.context);

  std::vector<CUresult> results;
  DriverEvent behind(gpu.context);
  gpu::Gate gate(gpu, faulty);
  kernel.launch(faulty);
  behind.record(faulty);
  behind.wait(other);
  queue.when_complete(faulty, [&](CUresult result) { results.push_back(result); });
  queue.when_complete(other, [&](CUresult result) { results.push_back(result); });
  expect(queue.poll() == 0, "nothing before the kernel runs");
  gate.open();
  step("sleeps until the fault has reached every callback");
  while (queue.pending() != 0) {
    pollfd wake{queue.native_handle(), POLLIN, 0};
    const bool armed = queue.arm();
    const int readable = ::poll(&wake, 1, armed ? 20'000 : 0);
    expect(!armed || readable == 1, "the descriptor becomes readable");
    if (armed && readable != 1) return;
    queue.poll();
  }
  expect(results == std::vector(2, CUDA_ERROR_ILLEGAL_ADDRESS), "the fault, for each that was pending");
}

} // namespace

std::vector<Scenario> completion_queue_scenarios() {
  return {{"fault-told-by-completions", fault_told_by_completions},
          {"fault-wakes-armed-queue", fault_wakes_armed_queue}};
}

} // namespace process
