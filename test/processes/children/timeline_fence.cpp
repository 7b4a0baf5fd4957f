// SPDX-License-Identifier: MIT
// A timeline fence of a stream whose work fails.
#include "kernel.hpp"
#include "scenario.hpp"

#include <cuevent/timeline_fence.hpp>

#include <chrono>

namespace process {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

void fault_told_by_fence() {
  const gpu::Gpu gpu;
  const gpu::Stream stream = gpu.stream();
  const Kernel kernel(gpu, "write_illegal_address");
  TimelineFence fence(gpu.context, stream);
  const std::uint64_t before = fence.signal();
  expect(fence.wait_for(before, 20s), "the ticket before the fault");

  kernel.launch(stream);
  const std::uint64_t behind = fence.signal();
  step("the wait for a ticket behind a fault");
  expect(fence.try_wait_for(behind, 20s) == CUDA_ERROR_ILLEGAL_ADDRESS, "the fault ends the wait");
  expect_throw<IllegalAddress>([&] { return fence.wait_for(behind, 20s); }, "a later wait");
  expect(fence.status() == CUDA_ERROR_ILLEGAL_ADDRESS, "the status");
  expect(fence.reached(before) && !fence.reached(behind), "only the tickets before the fault are reached");
  expect_throw<DeviceFault>([&] { fence.signal(); }, "a later signal");
} // the rest is destroyed without output

} // namespace

std::vector<Scenario> timeline_fence_scenarios() { return {{"fault-told-by-fence", fault_told_by_fence}}; }

} // namespace process
