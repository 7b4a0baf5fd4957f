// SPDX-License-Identifier: MIT
// Memory that is used before its allocation or after its end.
#include "order_programs.hpp"

namespace {

MISTAKE("unordered-copies", used_before_the_allocation,
        "another stream uses memory that is allocated in the order of a stream", with_order) {
  gpu.work(gpu.a);
  const CUdeviceptr memory = from_pool(gpu.a); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  zero(memory, gpu.b); //!
}

MISTAKE("unordered-copies", event_before_the_allocation, "the event is recorded before the allocation",
        with_order) {
  const CUevent ready = gpu.event();
  if (!corrected) expect(cuEventRecord(ready, gpu.a));
  const CUdeviceptr memory = from_pool(gpu.a), to = on_device(); //!
  if (corrected) expect(cuEventRecord(ready, gpu.a));
  expect(cuStreamWaitEvent(gpu.b, ready, 0));
  expect(cuMemcpyDtoDAsync(to, memory, block, gpu.b)); //!
}

MISTAKE("freed-while-used", used_after_its_free, "a stream uses memory that it has freed", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a);
  zero(memory, gpu.a);
  if (!corrected) expect(cuMemFreeAsync(memory, gpu.a)); //!
  cuMemsetD8Async(memory, 1, block, gpu.a);              //!
  if (corrected) expect(cuMemFreeAsync(memory, gpu.a));
}

MISTAKE("freed-while-used", copied_after_the_free_of_another_stream,
        "the consumer copies memory that the producer has freed", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a), to = on_device();
  zero(memory, gpu.a);
  order(gpu, gpu.a, gpu.b);
  if (!corrected) expect(cuMemFreeAsync(memory, gpu.a)); //!
  cuMemcpyDtoDAsync(to, memory + 64, 64, gpu.b);         //!
  if (corrected) {
    order(gpu, gpu.b, gpu.a);
    expect(cuMemFreeAsync(memory, gpu.a));
  }
}

MISTAKE("freed-while-used", kernel_after_the_free, "a kernel gets memory that was freed", with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = from_pool(gpu.a);
  void* arguments[] = {&memory};
  if (!corrected) expect(cuMemFreeAsync(memory, gpu.a));                         //!
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr)); //!
  if (corrected) expect(cuMemFreeAsync(memory, gpu.a));
}

MISTAKE("freed-while-used", kernel_after_a_plain_free, "a kernel gets memory that cuMemFree has freed",
        with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = on_device();
  void* arguments[] = {&memory};
  if (!corrected) expect(cuMemFree(memory));                                     //!
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr)); //!
  if (corrected) expect(cuMemFree(memory));
}

MISTAKE("freed-while-used", copy_after_a_plain_free, "the driver refuses memory that cuMemFree has freed",
        with_order) {
  const CUdeviceptr memory = on_device(), to = on_device();
  if (!corrected) expect(cuMemFree(memory));   //!
  cuMemcpyDtoDAsync(to, memory, block, gpu.a); //!
  if (corrected) expect(cuMemFree(memory));
}

MISTAKE("freed-while-used", replayed_after_the_free, "a graph is launched after its memory was freed",
        with_order) {
  const CUdeviceptr memory = from_pool(gpu.a), to = on_device();
  finish(gpu.a);
  const CUgraphExec exec = captured(gpu.a, [&] { expect(cuMemcpyDtoDAsync(to, memory, block, gpu.a)); });
  expect(cuGraphLaunch(exec, gpu.a));
  if (!corrected) expect(cuMemFreeAsync(memory, gpu.a)); //!
  expect(cuGraphLaunch(exec, gpu.a));                    //!
  if (corrected) expect(cuMemFreeAsync(memory, gpu.a));
}

MISTAKE("freed-while-used", replayed_on_memory_of_somebody_else,
        "the address of a graph's memory was given to another allocation", with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = from_pool(gpu.a);
  void* arguments[] = {&memory};
  finish(gpu.a);
  const CUgraphExec exec =
      captured(gpu.a, [&] { expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr)); });
  expect(cuMemFreeAsync(memory, gpu.a)); //!
  CUdeviceptr other = from_pool(gpu.a);
  zero(other, gpu.a);
  if (corrected) {
    arguments[0] = &other;
    expect(cuGraphExecDestroy(exec));
    expect(cuGraphLaunch(
        captured(gpu.a,
                 [&] { expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr)); }),
        gpu.a));
    return;
  }
  expect(cuGraphLaunch(exec, gpu.a)); //!
}

MISTAKE("freed-while-used", built_graph_after_the_free, "a node of a built graph has memory that was freed",
        with_order) {
  const CUdeviceptr memory = on_device(), other = on_device();
  const BuiltGraph built;
  const CUgraphNode node = built.copy(gpu, other, memory);
  const CUgraphExec exec = instantiate(built.get());
  expect(cuGraphLaunch(exec, gpu.a));
  expect(cuMemFree(memory)); //!
  if (corrected) {
    const CUDA_MEMCPY3D copy = BuiltGraph::copy_of(other, gpu.memory);
    expect(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, gpu.context));
  }
  expect(cuGraphLaunch(exec, gpu.a)); //!
}

MISTAKE("freed-while-used", captured_host_block_freed, "a captured upload reads a host block that was freed",
        with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  const CUgraphExec exec = captured(gpu.a, [&] { expect(cuMemcpyHtoDAsync(memory, host, block, gpu.a)); });
  expect(cuGraphLaunch(exec, gpu.a));
  if (!corrected) expect(cuMemFreeHost(host)); //!
  expect(cuGraphLaunch(exec, gpu.a));          //!
  finish(gpu.a);
}

// Lives that are right.

HARMLESS(allocated_and_waited_for, "each stream waits for the allocation, or the host has", with_order) {
  for (int i = 0; i < 10; ++i) {
    const CUdeviceptr memory = from_pool(gpu.a), other = from_pool(gpu.a);
    order(gpu, gpu.a, gpu.b);
    zero(memory, gpu.b);
    finish(gpu.b);
    zero(other, gpu.stream());
    finish(gpu.a);
    expect(cuCtxSynchronize());
    expect(cuMemFreeAsync(memory, gpu.b));
    expect(cuMemFreeAsync(other, gpu.b));
  }
}

HARMLESS(addresses_used_again, "each allocation gets an address that was freed", with_order) {
  const CUfunction touch = kernel("touch");
  for (int i = 0; i < 20; ++i) {
    CUdeviceptr memory = i % 2 == 0 ? from_pool(gpu.a) : on_device();
    void* arguments[] = {&memory};
    zero(memory, gpu.a);
    expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr));
    expect(i % 2 == 0 ? cuMemFreeAsync(memory, gpu.a) : cuMemFree(memory));
  }
}

HARMLESS(host_block_at_a_freed_address, "the host's memory is unregistered, and used as pageable memory",
         with_order) {
  const CUdeviceptr memory = on_device();
  std::vector<char> host(2 * block);
  for (int i = 0; i < 10; ++i) {
    expect(cuMemHostRegister(host.data(), host.size(), 0));
    expect(cuMemcpyHtoDAsync(memory, host.data(), block, gpu.a));
    expect(cuMemHostUnregister(host.data()));
    expect(cuMemcpyHtoDAsync(memory, host.data(), block, gpu.a));
    expect(cuMemcpyDtoHAsync(host.data(), memory, block, gpu.a));
  }
}

HARMLESS(memory_outlives_its_pool, "memory of a destroyed pool lives until it is freed", with_order) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CUdeviceptr memory = 0;
  expect(cuMemPoolCreate(&pool, &properties));
  expect(cuMemAllocFromPoolAsync(&memory, block, pool, gpu.a));
  expect(cuMemPoolDestroy(pool));
  zero(memory, gpu.a);
  expect(cuMemFreeAsync(memory, gpu.a));
}

HARMLESS(mapped_again_for_a_graph, "a graph sleeps while its memory is unmapped, and gets other memory there",
         with_order) {
  constexpr std::size_t piece = std::size_t{2} << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr memory = 0;
  expect(cuMemAddressReserve(&memory, piece, 0, 0, 0));
  const auto map = [&] {
    CUmemGenericAllocationHandle handle = 0;
    expect(cuMemCreate(&handle, piece, &properties, 0));
    expect(cuMemMap(memory, piece, 0, handle, 0));
    expect(cuMemRelease(handle));
    expect(cuMemSetAccess(memory, piece, &access, 1));
  };
  map();
  const CUgraphExec exec = captured(gpu.a, [&] { zero(memory, gpu.a); });
  for (int i = 0; i < 3; ++i) {
    expect(cuGraphLaunch(exec, gpu.a));
    finish(gpu.a);
    expect(cuMemUnmap(memory, piece));
    map();
  }
  expect(cuGraphLaunch(exec, gpu.a));
}

} // namespace
