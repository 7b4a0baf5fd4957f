// SPDX-License-Identifier: MIT
// Blocks of PyTorch's allocator. tools/checks/pytorch runs programs of PyTorch itself.
#include "torch_allocator.hpp"

#include "order_programs.hpp"

#include <cstdlib>

using torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

void CUDAPluggableAllocator::init(int) {}
bool CUDAPluggableAllocator::initialized() { return true; }
void CUDAPluggableAllocator::emptyCache() {}
void CUDAPluggableAllocator::attachAllocatorTraceTracker(c10::cuda::CUDACachingAllocator::Tracker) {
  std::abort();
}

namespace {

using Native = c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator;

Native& allocator() {
  static Native made;
  return made;
}

constexpr std::size_t segment_size = std::size_t{1} << 20U;

/// With a segment of cuMemAlloc.
Native& native() {
  allocator().init(1);
  c10::cuda::CUDACachingAllocator::allocator = &allocator();
  allocator().use(on_device(segment_size), block);
  return allocator();
}

/// With a segment that is mapped.
Native& expandable() {
  allocator().init(1);
  c10::cuda::CUDACachingAllocator::allocator = &allocator();
  static const Segment segment;
  allocator().use(segment.begin, block);
  return allocator();
}

MISTAKE("freed-while-used", block_given_away, "a block is given away while another stream reads it",
        with_order) {
  Native& torch = native();
  const CUdeviceptr tensor = torch.allocate(), to = on_device();
  zero(tensor, gpu.a);
  order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoDAsync(to, tensor, block, gpu.b)); //!
  torch.free(tensor);                                  //!
  const CUdeviceptr next = torch.allocate();
  if (corrected) order(gpu, gpu.b, gpu.a); // which is early enough: nobody has used the block yet
  zero(next, gpu.a);
}

MISTAKE("freed-while-used", mapped_block_given_away, "the same in a segment that grows", "--order") {
  Native& torch = expandable();
  const CUdeviceptr tensor = torch.allocate();
  zero(tensor, gpu.b); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  torch.free(tensor); //!
  zero(torch.allocate(), gpu.a);
}

MISTAKE("freed-while-used", graph_of_a_freed_block, "a graph is launched after its input was freed",
        with_order) {
  Native& torch = native();
  const CUdeviceptr input = torch.allocate(), to = on_device();
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_RELAXED));
  const CUdeviceptr inside = torch.allocate(true);
  expect(cuMemcpyDtoDAsync(inside, input, block, gpu.a));
  expect(cuMemcpyDtoDAsync(to, inside, block, gpu.a));
  CUgraph graph = nullptr;
  expect(cuStreamEndCapture(gpu.a, &graph));
  torch.free(inside); // the graph keeps its memory
  CUgraphExec exec = nullptr;
  expect(cuGraphInstantiateWithFlags(&exec, graph, 0));
  if (!corrected) torch.free(input);  //!
  expect(cuGraphLaunch(exec, gpu.a)); //!
}

HARMLESS(blocks_of_one_segment, "two streams use two blocks of one segment", with_order) {
  Native& torch = native();
  const CUdeviceptr one = torch.allocate(), other = torch.allocate();
  for (int step = 0; step < 3; ++step) {
    zero(one, gpu.a);
    zero(other, gpu.b);
  }
  torch.free(one);
  zero(torch.allocate(), gpu.a); // its own stream needs no wait
}

HARMLESS(one_observer, "the allocator is observed once, whatever is allocated later", with_order) {
  Native& torch = native();
  zero(on_device(), gpu.a);
  expect(torch.trackers() <= 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

HARMLESS(allocator_without_observers, "an allocator of the program, which nobody can observe", with_order) {
  static CUDAPluggableAllocator own;
  c10::cuda::CUDACachingAllocator::allocator = &own;
  zero(on_device(), gpu.a);
}

HARMLESS(allocator_before_its_devices, "an allocator that knows no device yet", with_order) {
  c10::cuda::CUDACachingAllocator::allocator = &allocator();
  zero(on_device(), gpu.a);
  expect(allocator().trackers() == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

} // namespace
