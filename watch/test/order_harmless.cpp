// SPDX-License-Identifier: MIT
// What looks like memory without an order, and is right.
#include "order_programs.hpp"

#include <cstdint>
#include <sched.h>

namespace {

HARMLESS(two_streams_reuse_one_pool, "1,000 times; the driver orders a free and the next use of the address",
         with_order) {
  for (int i = 0; i < 1000; ++i) {
    const CUstream stream = i % 2 == 0 ? gpu.a : gpu.b;
    const CUdeviceptr memory = from_pool(stream);
    zero(memory, stream);
    expect(cuMemFreeAsync(memory, stream));
  }
}

HARMLESS(end_pointer, "a kernel gets the end of its memory, which is the start of the next allocation",
         with_order) {
  const CUfunction spin = kernel("_Z4spinPjy");
  const CUdeviceptr first = from_pool(gpu.a, 512), second = from_pool(gpu.a, 512);
  finish(gpu.a);
  CUdeviceptr begin = first, end = first + 512;
  void* arguments[] = {&begin, &end};
  expect(cuMemsetD8Async(first, 0, 512, gpu.b));
  expect(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, gpu.b, arguments, nullptr));
  expect(cuMemFreeAsync(second, gpu.a));
}

HARMLESS(segment_mapped_again, "other memory is mapped where some was, after the host has waited",
         with_order) {
  const Segment segment;
  zero(segment.begin, gpu.a);
  finish(gpu.a);
  expect(cuMemUnmap(segment.begin, 2 * segment.piece));
  expect(cuMemAddressFree(segment.begin, 2 * segment.piece));
  const Segment other;
  zero(other.begin, gpu.b);
}

HARMLESS(freed_after_the_host_waited, "the host has waited for the side stream", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a);
  order(gpu, gpu.a, gpu.b);
  zero(memory, gpu.b);
  finish(gpu.b);
  expect(cuMemFreeAsync(memory, gpu.a));
}

HARMLESS(freed_after_a_query, "a query has found that the side stream is done", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a);
  const CUevent done = gpu.event();
  order(gpu, gpu.a, gpu.b);
  zero(memory, gpu.b);
  expect(cuEventRecord(done, gpu.b));
  while (cuEventQuery(done) != CUDA_SUCCESS)
    sched_yield();
  expect(cuMemFreeAsync(memory, gpu.a));
}

HARMLESS(unused_workspace, "kernels of two streams get one workspace, and do not use it", with_order) {
  const CUfunction spin = kernel("_Z4spinPjy");
  CUdeviceptr workspace = on_device();
  unsigned long long bound = 0;
  void* arguments[] = {&workspace, &bound};
  for (int i = 0; i < 10; ++i)
    for (const CUstream stream : {gpu.a, gpu.b})
      expect(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
}

HARMLESS(free_that_waits, "cuMemFree and cuMemFreeHost wait for the device", with_order) {
  for (int i = 0; i < 10; ++i) {
    const CUdeviceptr memory = on_device();
    char* const host = pinned();
    expect(cuMemcpyHtoDAsync(memory, host, block, gpu.b));
    expect(cuMemFree(memory));
    expect(cuMemFreeHost(host));
  }
}

HARMLESS(neighbours, "two streams write to parts of one allocation that touch each other", with_order) {
  const CUdeviceptr memory = on_device();
  for (int i = 0; i < 10; ++i) {
    expect(cuMemsetD8Async(memory, 1, block / 2, gpu.a));
    expect(cuMemsetD8Async(memory + block / 2, 1, block / 2, gpu.b));
  }
}

HARMLESS(both_read, "two streams read the same memory", with_order) {
  const CUdeviceptr memory = on_device(), to[] = {on_device(), on_device()};
  for (int i = 0; i < 10; ++i) {
    expect(cuMemcpyDtoDAsync(to[0], memory, block, gpu.a));
    expect(cuMemcpyDtoDAsync(to[1], memory, block, gpu.b));
  }
}

HARMLESS(blocking_streams, "the legacy stream orders blocking streams", with_order) {
  const CUstream one = gpu.stream(CU_STREAM_DEFAULT), other = gpu.stream(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = on_device();
  for (int i = 0; i < 10; ++i) {
    zero(memory, one);
    zero(memory, nullptr);
    zero(memory, other);
    expect(cuMemsetD8(memory, 1, block));
  }
}

HARMLESS(through_a_third_stream, "the order goes through a stream without work", with_order) {
  const CUdeviceptr memory = on_device();
  const CUstream middle = gpu.stream();
  for (int i = 0; i < 10; ++i) {
    zero(memory, gpu.a);
    order(gpu, gpu.a, middle);
    order(gpu, middle, gpu.b);
    zero(memory, gpu.b);
    order(gpu, gpu.b, gpu.a);
  }
}

HARMLESS(semaphore, "streams signal and wait with values in memory, the wait first", with_order) {
  const CUdeviceptr memory = on_device();
  char* const words = pinned();
  const CUdeviceptr word = reinterpret_cast<std::uintptr_t>(words);
  __atomic_store_n(reinterpret_cast<unsigned*>(words), 0U, __ATOMIC_RELEASE);
  for (unsigned i = 1; i <= 10; ++i) {
    expect(cuStreamWaitValue32(gpu.b, word, i, CU_STREAM_WAIT_VALUE_GEQ));
    zero(memory, gpu.b);
    expect(cuStreamWriteValue32(gpu.b, word + 64, i, 0));
    zero(memory, gpu.a);
    expect(cuStreamWriteValue32(gpu.a, word, i, 0));
    expect(cuStreamWaitValue32(gpu.a, word + 64, i, CU_STREAM_WAIT_VALUE_GEQ));
  }
}

HARMLESS(fence, "the host polls a word that the stream writes after its work", with_order) {
  const CUdeviceptr memory = on_device();
  char* const words = pinned();
  const CUdeviceptr word = reinterpret_cast<std::uintptr_t>(words);
  __atomic_store_n(reinterpret_cast<unsigned*>(words), 0U, __ATOMIC_RELEASE);
  for (unsigned i = 1; i <= 10; ++i) {
    const CUstream stream = i % 2 == 0 ? gpu.a : gpu.b;
    zero(memory, stream);
    expect(cuStreamWriteValue32(stream, word, i, 0));
    while (__atomic_load_n(reinterpret_cast<unsigned*>(words), __ATOMIC_ACQUIRE) < i)
      sched_yield();
  }
}

HARMLESS(queue, "a host function tells the host that the work is done", with_order) {
  const CUdeviceptr memory = on_device();
  static unsigned done = 0;
  for (unsigned i = 1; i <= 10; ++i) {
    const CUstream stream = i % 2 == 0 ? gpu.a : gpu.b;
    zero(memory, stream);
    expect(cuLaunchHostFunc(
        stream, [](void*) { __atomic_add_fetch(&done, 1, __ATOMIC_RELEASE); }, nullptr));
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < i)
      sched_yield();
  }
}

HARMLESS(host_opens_a_gate, "a stream waits for the host, which has waited for the other stream",
         with_order) {
  const CUdeviceptr memory = on_device();
  char* const words = pinned();
  const CUdeviceptr word = reinterpret_cast<std::uintptr_t>(words);
  __atomic_store_n(reinterpret_cast<unsigned*>(words), 0U, __ATOMIC_RELEASE);
  expect(cuStreamWaitValue32(gpu.b, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  zero(memory, gpu.b);
  order(gpu, gpu.b, gpu.stream());
  zero(memory, gpu.a);
  finish(gpu.a);
  __atomic_store_n(reinterpret_cast<unsigned*>(words), 1U, __ATOMIC_RELEASE);
  finish(gpu.b);
}

HARMLESS(time_was_read, "a time between two events is known only when both are done", with_order) {
  const CUdeviceptr memory = on_device();
  const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
  for (int i = 0; i < 10; ++i) {
    const CUstream stream = i % 2 == 0 ? gpu.a : gpu.b;
    expect(cuEventRecord(start, stream));
    zero(memory, stream);
    expect(cuEventRecord(end, stream));
    float time = 0;
    while (cuEventElapsedTime(&time, start, end) != CUDA_SUCCESS)
      sched_yield();
  }
}

HARMLESS(copy_without_a_stream, "a copy to the host waits for the legacy stream", with_order) {
  const CUdeviceptr memory = on_device();
  char here[block];
  for (int i = 0; i < 10; ++i) {
    zero(memory, nullptr);
    expect(cuMemcpyDtoH(here, memory, block));
    zero(memory, gpu.a);
    order(gpu, gpu.a, nullptr);
  }
}

HARMLESS(one_graph_on_two_streams, "launches of one executable graph wait for each other", with_order) {
  const CUdeviceptr memory = on_device();
  const CUgraphExec exec = captured(gpu.a, [&] { zero(memory, gpu.a); });
  for (int i = 0; i < 10; ++i)
    expect(cuGraphLaunch(exec, i % 2 == 0 ? gpu.a : gpu.b));
}

HARMLESS(address_of_an_ended_allocation, "an address is used again for other memory", with_order) {
  for (int i = 0; i < 10; ++i) {
    const CUdeviceptr memory = on_device();
    zero(memory, i % 2 == 0 ? gpu.a : gpu.b);
    expect(cuMemFree(memory));
  }
}

HARMLESS(loader, "pinned buffers of a loader are filled again once their copy is done", with_order) {
  char* const buffers[] = {pinned(), pinned()};
  const CUdeviceptr batches[] = {on_device(), on_device()}, result = on_device();
  const CUevent copied[] = {gpu.event(), gpu.event()};
  for (int i = 0; i < 200; ++i) {
    const int now = i % 2;
    if (i > 1) expect(cuEventSynchronize(copied[now]));
    buffers[now][0] = static_cast<char>(i);
    order(gpu, gpu.a, gpu.b);
    expect(cuMemcpyHtoDAsync(batches[now], buffers[now], block, gpu.b));
    expect(cuEventRecord(copied[now], gpu.b));
    order(gpu, gpu.b, gpu.a);
    expect(cuMemcpyDtoDAsync(result, batches[now], block, gpu.a));
  }
}

HARMLESS(event_recorded_by_a_graph, "a stream waits for an event that a graph records", with_order) {
  const CUdeviceptr memory = on_device();
  const CUevent recorded = gpu.event();
  const CUgraphExec exec = captured(gpu.a, [&] {
    zero(memory, gpu.a);
    expect(cuEventRecordWithFlags(recorded, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  });
  for (int i = 0; i < 10; ++i) {
    expect(cuGraphLaunch(exec, gpu.a));
    expect(cuStreamWaitEvent(gpu.b, recorded, 0));
    zero(memory, gpu.b);
    order(gpu, gpu.b, gpu.a);
  }
}

HARMLESS(diamond, "a graph that calls build has two branches, and joins them", with_order) {
  const CUdeviceptr memory = on_device(), halves[] = {on_device(), on_device()};
  const BuiltGraph built;
  const CUgraphNode fork = built.memset(gpu, memory);
  const CUgraphNode branches[] = {built.copy(gpu, halves[0], memory, {fork}),
                                  built.copy(gpu, halves[1], memory, {fork})};
  const CUgraphNode join = built.memset(gpu, memory, {branches[0], branches[1]});
  built.copy(gpu, memory, halves[0], {join});
  CUgraph clone = nullptr;
  expect(cuGraphClone(&clone, built.get()));
  const CUgraphExec execs[] = {instantiate(built.get()), instantiate(clone)};
  for (int i = 0; i < 10; ++i)
    expect(cuGraphLaunch(execs[i % 2], gpu.a));
}

HARMLESS(node_with_other_arguments, "a node of a graph gets another buffer, so the first one is free",
         with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr buffers[] = {on_device(), on_device()};
  const CUdeviceptr to = on_device();
  const BuiltGraph built;
  const CUgraphNode copied = built.copy(gpu, to, buffers[0]), launched = built.launch(touch, buffers[0]);
  const CUgraphExec exec = instantiate(built.get());
  for (int i = 0; i < 10; ++i) {
    void* arguments[] = {&buffers[i % 2]};
    const CUDA_MEMCPY3D copy = BuiltGraph::copy_of(to, buffers[i % 2]);
    const CUDA_KERNEL_NODE_PARAMS launch = BuiltGraph::launch_of(touch, arguments);
    expect(cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, gpu.context));
    expect(cuGraphExecKernelNodeSetParams(exec, launched, &launch));
    zero(buffers[i % 2], gpu.b);
    order(gpu, gpu.b, gpu.a);
    expect(cuGraphLaunch(exec, gpu.a));
    order(gpu, gpu.a, gpu.b);
    expect(cuGraphLaunch(exec, gpu.a));
    zero(buffers[(i + 1) % 2], gpu.b); // the launch before last is ordered before this
    order(gpu, gpu.b, gpu.a);
  }
}

HARMLESS(nodes_set_before_the_graph_is_made, "the arguments of a node change before it is instantiated",
         with_order) {
  const CUdeviceptr memory = on_device(), to[] = {on_device(), on_device()};
  const BuiltGraph built;
  built.memset(gpu, memory);
  const CUgraphNode copied = built.copy(gpu, to[0], memory);
  const CUDA_MEMCPY3D other = BuiltGraph::copy_of(to[0], to[1]);
  expect(cuGraphMemcpyNodeSetParams(copied, &other));
  expect(cuGraphLaunch(instantiate(built.get()), gpu.a));
}

HARMLESS(host_node, "a node of a graph tells the host that its work is done", with_order) {
  static unsigned done = 0;
  const CUdeviceptr memory = on_device();
  const BuiltGraph built;
  const CUgraphNode written = built.memset(gpu, memory);
  CUDA_HOST_NODE_PARAMS parameters{};
  parameters.fn = [](void*) { __atomic_add_fetch(&done, 1, __ATOMIC_RELEASE); };
  CUgraphNode told = nullptr;
  expect(cuGraphAddHostNode(&told, built.get(), &written, 1, &parameters));
  const CUgraphExec exec = instantiate(built.get());
  for (unsigned i = 1; i <= 10; ++i) {
    expect(cuGraphLaunch(exec, gpu.a));
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < i)
      sched_yield();
    zero(memory, gpu.b);
    finish(gpu.b);
  }
}

HARMLESS(number_like_a_pointer, "an argument of 64 bits is a number that lies in memory that is freed",
         "--order") {
  const CUfunction spin = kernel("_Z4spinPjy");
  const CUdeviceptr freed = from_pool(gpu.a);
  CUdeviceptr memory = on_device();
  unsigned long long hash = freed + 4321 % block;
  void* arguments[] = {&memory, &hash};
  zero(freed, gpu.a);
  expect(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, gpu.b, arguments, nullptr));
  expect(cuMemFreeAsync(freed, gpu.a));
}

HARMLESS(polled_status,
         "the host polls the end of a status of 128 bytes, which a stream copies behind its work",
         with_order) {
  const CUdeviceptr memory = on_device(), status = on_device();
  auto* const words = reinterpret_cast<unsigned*>(pinned());
  for (unsigned i = 1; i <= 10; ++i) {
    const CUstream stream = i % 2 == 0 ? gpu.a : gpu.b;
    zero(memory, stream);
    expect(cuMemsetD32Async(status, i, 32, stream));
    expect(cuMemcpyDtoHAsync(words, status, 128, stream));
    while (__atomic_load_n(words + 31, __ATOMIC_ACQUIRE) != i)
      sched_yield();
  }
}

HARMLESS(slices_of_an_arena, "kernels and copies of two streams use slices of one allocation", with_order) {
  const CUfunction touch = kernel("touch");
  const CUdeviceptr arena = on_device(4 * block);
  char* const host = pinned();
  for (int i = 0; i < 10; ++i) {
    for (const std::size_t slice : {0, 2}) {
      CUdeviceptr memory = arena + slice * block;
      void* arguments[] = {&memory};
      expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr));
    }
    for (const std::size_t slice : {1, 3})
      expect(cuMemcpyHtoDAsync(arena + slice * block, host, block, gpu.b));
  }
}

// As measured, such a copy is as work of the legacy stream of each context whose memory it uses.
HARMLESS(legacy_copy_between_contexts, "a copy on the legacy stream uses memory of another context",
         with_order) {
  const CUdeviceptr mine = on_device();
  zero(mine, CU_STREAM_LEGACY);
  const CUcontext other = gpu.other_context();
  const CUdeviceptr theirs = on_device();
  const CUstream blocking = gpu.stream(CU_STREAM_DEFAULT);
  zero(theirs, blocking);
  expect(cuCtxSetCurrent(gpu.context));
  expect(cuMemcpyDtoD(theirs, mine, block));
  expect(cuMemcpyDtoDAsync(theirs, mine, block, CU_STREAM_LEGACY));
  expect(cuCtxSetCurrent(other));
  zero(theirs, blocking);
  expect(cuMemcpyDtoD(mine, theirs, block));
  expect(cuCtxSetCurrent(gpu.context));
  zero(mine, CU_STREAM_LEGACY);
}

} // namespace
