// SPDX-License-Identifier: MIT
// Mistakes that people have reported from inference servers, loaders, data frames and frameworks: each in a
// few calls, and with its correction.
#include "order_programs.hpp"

namespace {

// Memory that is freed while another stream uses it.

MISTAKE("freed-while-used", record_stream_forgotten, "a side stream reads a tensor that its own stream frees",
        with_order) {
  const CUdeviceptr tensor = from_pool(gpu.a), to = on_device();
  zero(tensor, gpu.a);
  order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoDAsync(to, tensor, block, gpu.b)); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(tensor, gpu.a)); //!
}

MISTAKE("freed-while-used", offloaded_block_freed, "a block is freed while the copy of it to the host runs",
        with_order) {
  char* const host = pinned();
  for (int step = 0; step < 3; ++step) {
    const CUdeviceptr activation = from_pool(gpu.a);
    zero(activation, gpu.a);
    order(gpu, gpu.a, gpu.b);
    expect(cuMemcpyDtoHAsync(host, activation, block, gpu.b)); //!
    if (corrected) order(gpu, gpu.b, gpu.a);
    expect(cuMemFreeAsync(activation, gpu.a)); //!
    if (corrected) finish(gpu.b);
  }
}

MISTAKE("freed-while-used", segment_unmapped_early, "memory is unmapped, which waits for nothing",
        with_order) {
  const Segment segment;
  expect(cuMemcpyHtoDAsync(segment.begin + segment.piece, pinned(), block, gpu.a)); //!
  if (corrected) finish(gpu.a);
  expect(cuMemUnmap(segment.begin, 2 * segment.piece)); //!
}

MISTAKE("freed-while-used", freed_on_another_stream, "the stream that frees does not wait for the last use",
        with_order) {
  const CUdeviceptr memory = from_pool(gpu.a);
  zero(memory, gpu.a); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemFreeAsync(memory, gpu.b)); //!
}

MISTAKE("freed-while-used", event_before_the_last_use, "the event is recorded before the last copy",
        with_order) {
  const CUdeviceptr memory = from_pool(gpu.a), to = on_device();
  order(gpu, gpu.a, gpu.b);
  zero(memory, gpu.b);
  const CUevent used = gpu.event();
  if (!corrected) expect(cuEventRecord(used, gpu.b));
  expect(cuMemcpyDtoDAsync(to, memory, block, gpu.b)); //!
  if (corrected) expect(cuEventRecord(used, gpu.b));
  expect(cuStreamWaitEvent(gpu.a, used, 0));
  expect(cuMemFreeAsync(memory, gpu.a)); //!
}

MISTAKE("freed-while-used", kernel_on_a_side_stream, "a kernel of a side stream uses memory that is freed",
        with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = from_pool(gpu.a);
  order(gpu, gpu.a, gpu.b);
  void* arguments[] = {&memory};
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.b, arguments, nullptr)); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(memory, gpu.a)); //!
}

MISTAKE("freed-while-used", extra_arguments, "the same, with the arguments in one buffer", with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = from_pool(gpu.a);
  std::size_t size = sizeof memory;
  order(gpu, gpu.a, gpu.b);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &memory, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.b, nullptr, extra)); //!
  if (corrected) finish(gpu.b);
  expect(cuMemFreeAsync(memory, gpu.a)); //!
}

MISTAKE("freed-while-used", freed_by_another_thread,
        "a thread that owns the buffer frees it on its own stream", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a);
  finish(gpu.a);
  zero(memory, gpu.a); //!
  if (corrected) finish(gpu.a);
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    expect(cuMemFreeAsync(memory, gpu.b)); //!
  });
}

MISTAKE("freed-while-used", freed_on_the_default_stream, "work of a non-blocking stream is not waited for",
        with_order) {
  const CUdeviceptr memory = from_pool(nullptr);
  order(gpu, nullptr, gpu.a);
  zero(memory, gpu.a); //!
  if (corrected) order(gpu, gpu.a, nullptr);
  expect(cuMemFreeAsync(memory, nullptr)); //!
}

MISTAKE("freed-while-used", replay_after_the_free,
        "a graph that uses the memory is replayed on another stream", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a);
  finish(gpu.a);
  const CUgraphExec exec = captured(gpu.b, [&] { zero(memory, gpu.b); });
  expect(cuGraphLaunch(exec, gpu.b)); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(memory, gpu.a)); //!
}

MISTAKE("freed-while-used", kernel_of_a_built_graph,
        "memory is freed that a kernel of a graph uses on another stream", with_order) {
  const CUfunction touch = kernel("touch");
  const CUdeviceptr memory = from_pool(gpu.a);
  finish(gpu.a);
  const BuiltGraph built;
  built.launch(touch, memory);
  expect(cuGraphLaunch(instantiate(built.get()), gpu.b)); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(memory, gpu.a)); //!
}

MISTAKE("freed-while-used", free_without_a_stream, "cuMemFree does not wait if the memory is of a pool",
        with_order) {
  const CUdeviceptr memory = from_pool(gpu.a);
  zero(memory, gpu.a); //!
  if (corrected) finish(gpu.a);
  expect(cuMemFree(memory)); //!
}

// Copies and memsets that overlap.

MISTAKE("unordered-copies", staging_buffer_reused, "the buffer is filled again while it is still being read",
        with_order) {
  const CUdeviceptr staging = on_device(), to = on_device();
  char* const host = pinned();
  for (int step = 0; step < 3; ++step) {
    expect(cuMemcpyHtoDAsync(staging, host, block, gpu.a)); //!
    order(gpu, gpu.a, gpu.b);
    expect(cuMemcpyDtoDAsync(to, staging, block, gpu.b)); //!
    if (corrected) order(gpu, gpu.b, gpu.a);
  }
}

MISTAKE("unordered-copies", segment_read_before_written, "a batch in a mapped segment is read before it came",
        with_order) {
  const Segment segment;
  const CUdeviceptr to = on_device(), batch = segment.begin + segment.piece;
  zero(segment.begin, gpu.a);                               // the other piece is not the batch
  expect(cuMemcpyHtoDAsync(batch, pinned(), block, gpu.a)); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoDAsync(to, batch, block, gpu.b)); //!
}

MISTAKE("unordered-copies", block_copied_out_before_written,
        "a block of a cache is copied out before it is written", with_order) {
  const CUdeviceptr cache = on_device();
  char* const host = pinned();
  zero(cache, gpu.a); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host, cache, block, gpu.b)); //!
}

MISTAKE("unordered-copies", double_buffer_off_by_one,
        "two buffers, and the wait is for the use three steps ago", with_order) {
  const CUdeviceptr buffers[] = {on_device(), on_device()}, to = on_device();
  const CUevent done[] = {gpu.event(), gpu.event(), gpu.event()};
  char* const host = pinned();
  const int distance = corrected ? 2 : 3;
  for (int step = 0; step < 9; ++step) {
    if (step >= distance) expect(cuStreamWaitEvent(gpu.a, done[(step - distance) % 3], 0));
    expect(cuMemcpyHtoDAsync(buffers[step % 2], host, block, gpu.a)); //!
    order(gpu, gpu.a, gpu.b);
    expect(cuMemcpyDtoDAsync(to, buffers[step % 2], block, gpu.b)); //!
    expect(cuEventRecord(done[step % 3], gpu.b));
  }
}

MISTAKE("unordered-copies", event_too_early, "the event is recorded before the second half is written",
        with_order) {
  const CUdeviceptr memory = on_device(), to = on_device();
  const CUevent written = gpu.event();
  expect(cuMemsetD8Async(memory, 1, block / 2, gpu.a));
  if (!corrected) expect(cuEventRecord(written, gpu.a));
  expect(cuMemsetD8Async(memory + block / 2, 1, block / 2, gpu.a)); //!
  if (corrected) expect(cuEventRecord(written, gpu.a));
  expect(cuStreamWaitEvent(gpu.b, written, 0));
  expect(cuMemcpyDtoDAsync(to, memory, block, gpu.b)); //!
}

MISTAKE("unordered-copies", wrong_event, "the consumer waits for the event of another producer", with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  const CUstream other = gpu.stream();
  const CUevent events[] = {gpu.event(), gpu.event()};
  zero(memory, gpu.a); //!
  expect(cuEventRecord(events[0], gpu.a));
  expect(cuEventRecord(events[1], other));
  expect(cuStreamWaitEvent(gpu.b, events[corrected ? 0 : 1], 0));
  expect(cuMemcpyDtoHAsync(host, memory, block, gpu.b)); //!
}

MISTAKE("unordered-copies", default_stream_and_non_blocking,
        "the default stream does not wait for such a stream", with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  const CUstream mine = gpu.stream(corrected ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  zero(memory, nullptr);                                //!
  expect(cuMemcpyDtoHAsync(host, memory, block, mine)); //!
}

MISTAKE("unordered-copies", memset_returns_early, "cuMemsetD8 does not wait for the device", with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  expect(cuMemsetD8(memory, 0, block)); //!
  if (corrected) expect(cuCtxSynchronize());
  expect(cuMemcpyHtoDAsync(memory, host, block, gpu.a)); //!
}

MISTAKE("unordered-copies", halo_off_by_one, "two halves overlap in their last row", with_order) {
  const CUdeviceptr field = on_device(), left = on_device(), right = on_device();
  const std::size_t row = 64, half = block / 2;
  expect(cuMemcpyDtoDAsync(field, left, half + (corrected ? 0 : row), gpu.a)); //!
  expect(cuMemcpyDtoDAsync(field + half, right, half, gpu.b));                 //!
}

MISTAKE("unordered-copies", swapped_in_while_swapped_out, "a block is loaded again before it has been saved",
        with_order) {
  const CUdeviceptr cache = on_device();
  char* const out = pinned();
  char* const in = pinned();
  expect(cuMemcpyDtoHAsync(out, cache, block, gpu.a)); //!
  if (corrected) finish(gpu.a);
  expect(cuMemcpyHtoDAsync(cache, in, block, gpu.b)); //!
}

MISTAKE("unordered-copies", two_threads_share_a_buffer,
        "each thread has its stream, and both clear one buffer", with_order) {
  const CUdeviceptr counters = on_device();
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    zero(counters, gpu.a); //!
    if (corrected) finish(gpu.a);
  });
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    zero(counters, gpu.b); //!
  });
}

MISTAKE("unordered-copies", graph_branch_not_joined, "two branches of a graph touch the same memory",
        with_order) {
  const CUdeviceptr memory = on_device(), to = on_device();
  const CUevent fork = gpu.event(), done = gpu.event(), join = gpu.event();
  const CUgraphExec exec = captured(gpu.a, [&] {
    expect(cuEventRecord(fork, gpu.a));
    expect(cuStreamWaitEvent(gpu.b, fork, 0));
    zero(memory, gpu.b); //!
    expect(cuEventRecord(done, gpu.b));
    if (corrected) expect(cuStreamWaitEvent(gpu.a, done, 0));
    expect(cuMemcpyDtoDAsync(to, memory, block, gpu.a)); //!
    expect(cuEventRecord(join, gpu.b));
    expect(cuStreamWaitEvent(gpu.a, join, 0));
  });
  expect(cuGraphLaunch(exec, gpu.a));
}

MISTAKE("unordered-copies", input_of_a_replay_overwritten, "the next input is copied while the graph runs",
        with_order) {
  const CUdeviceptr input = on_device(), output = on_device();
  char* const host = pinned();
  const CUgraphExec exec = captured(gpu.a, [&] { expect(cuMemcpyDtoDAsync(output, input, block, gpu.a)); });
  for (int step = 0; step < 3; ++step) {
    expect(cuMemcpyHtoDAsync(input, host, block, gpu.b)); //!
    order(gpu, gpu.b, gpu.a);
    expect(cuGraphLaunch(exec, gpu.a)); //!
    if (corrected) order(gpu, gpu.a, gpu.b);
  }
}

MISTAKE("unordered-copies", built_branch_without_a_dependency, "a node of a graph lacks its dependency",
        with_order) {
  const CUdeviceptr memory = on_device(), to = on_device(), other = on_device();
  const BuiltGraph built;
  const CUgraphNode written = built.memset(gpu, memory); //!
  const CUgraphNode first = built.memset(gpu, other);
  std::vector<CUgraphNode> after{first};
  if (corrected) after.push_back(written);
  built.copy(gpu, to, memory, after); //!
  expect(cuGraphLaunch(instantiate(built.get()), gpu.a));
}

MISTAKE("unordered-copies", dependency_of_another_node, "a dependency is added, and leads to the wrong node",
        with_order) {
  const CUdeviceptr memory = on_device(), to = on_device();
  const BuiltGraph built;
  const CUgraphNode copied = built.copy(gpu, to, memory); //!
  const CUgraphNode written = built.memset(gpu, memory);  //!
  CUgraphNode between = nullptr;
  expect(cuGraphAddEmptyNode(&between, built.get(), &written, 1));
  built.add_dependency(corrected ? between : copied, corrected ? copied : between);
  expect(cuGraphLaunch(instantiate(built.get()), gpu.a));
}

MISTAKE("unordered-copies", arguments_set_before_the_replay,
        "a node gets the buffer that another stream is filling", with_order) {
  const CUdeviceptr buffers[] = {on_device(), on_device()}, to = on_device();
  const BuiltGraph built;
  const CUgraphNode node = built.copy(gpu, to, buffers[0]);
  const CUgraphExec exec = instantiate(built.get());
  expect(cuGraphLaunch(exec, gpu.a));
  zero(buffers[1], gpu.b); //!
  const CUDA_MEMCPY3D changed = BuiltGraph::copy_of(to, buffers[1]);
  expect(cuGraphExecMemcpyNodeSetParams(exec, node, &changed, gpu.context));
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuGraphLaunch(exec, gpu.a)); //!
}

MISTAKE("unordered-copies", host_waits_for_one_of_two,
        "the host waits for one stream, and reuses what both use", with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  zero(memory, gpu.a);
  finish(gpu.a);
  expect(cuMemcpyDtoHAsync(host, memory, block, gpu.b)); //!
  finish(corrected ? gpu.b : gpu.a);
  zero(memory, gpu.a); //!
}

MISTAKE("unordered-copies", gather_before_the_last_part, "the event of the last part is waited for too late",
        with_order) {
  const CUdeviceptr parts = on_device();
  char* const host = pinned();
  const CUstream streams[] = {gpu.a, gpu.b, gpu.stream()};
  const CUstream gathering = gpu.stream();
  for (int i = 0; i < 3; ++i) {
    const auto part = static_cast<std::size_t>(i) * 1024;
    if (i < 2) {
      expect(cuMemsetD8Async(parts + part, 1, 1024, streams[i]));
      order(gpu, streams[i], gathering);
    } else {
      expect(cuMemsetD8Async(parts + part, 1, 1024, streams[i])); //!
      if (corrected) order(gpu, streams[i], gathering);
    }
  }
  expect(cuMemcpyDtoHAsync(host, parts, 3072, gathering)); //!
  order(gpu, streams[2], gathering);
}

// A kernel, whose arguments only say what it may use.

MISTAKE("unordered-kernel", kernel_reads_while_copied,
        "the input of a kernel is overwritten by the next copy", with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr input = on_device();
  char* const host = pinned();
  void* arguments[] = {&input};
  for (int step = 0; step < 6; ++step) {
    expect(cuMemcpyHtoDAsync(input, host, block, gpu.b)); //!
    order(gpu, gpu.b, gpu.a);
    expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr)); //!
    if (corrected) order(gpu, gpu.a, gpu.b);
  }
}

MISTAKE("unordered-kernel", slice_overwritten, "a slice of an arena is overwritten while a kernel uses it",
        with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr slice = on_device(4 * block) + block;
  char* const host = pinned();
  void* arguments[] = {&slice};
  for (int step = 0; step < 6; ++step) {
    expect(cuMemcpyHtoDAsync(slice, host, block, gpu.b)); //!
    order(gpu, gpu.b, gpu.a);
    expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr)); //!
    if (corrected) order(gpu, gpu.a, gpu.b);
  }
}

MISTAKE("freed-while-used", slice_of_a_freed_arena, "an arena is freed while a kernel uses a slice of it",
        with_order) {
  const CUfunction touch = kernel("touch");
  const CUdeviceptr arena = from_pool(gpu.a, 4 * block);
  CUdeviceptr slice = arena + block;
  void* arguments[] = {&slice};
  order(gpu, gpu.a, gpu.b);
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.b, arguments, nullptr)); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(arena, gpu.a)); //!
}

MISTAKE("unordered-copies", early_use_of_an_arena, "the first of 2,000 uses of an arena has no wait",
        with_order) {
  const CUdeviceptr arena = on_device(2000 * std::size_t{64});
  char* const host = pinned();
  for (std::size_t i = 0; i < 2000; ++i)
    expect(cuMemsetD8Async(arena + i * 64, 1, 64, gpu.a)); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host, arena, 64, gpu.b)); //!
}

MISTAKE("unordered-copies", created_stream_copies_between_contexts,
        "a copy on a created stream uses memory of another context, whose legacy stream writes to it",
        with_order) {
  const CUdeviceptr mine = on_device();
  const CUcontext other = gpu.other_context();
  const CUdeviceptr theirs = on_device();
  expect(cuCtxSetCurrent(gpu.context));
  expect(cuMemcpyDtoDAsync(theirs, mine, block, gpu.a)); //!
  if (corrected) finish(gpu.a);
  expect(cuCtxSetCurrent(other));
  expect(cuMemsetD8Async(theirs, 0, block, CU_STREAM_LEGACY)); //!
}

MISTAKE("unordered-copies", legacy_fill_in_another_context,
        "a fill on the legacy stream is of another context's memory, whose legacy stream writes to it",
        with_order) {
  gpu.other_context();
  const CUdeviceptr theirs = on_device();
  expect(cuMemsetD8Async(theirs, 0, block, CU_STREAM_LEGACY)); //!
  if (corrected) finish(CU_STREAM_LEGACY);
  expect(cuCtxSetCurrent(gpu.context));
  expect(cuMemsetD8Async(theirs, 0, block, CU_STREAM_LEGACY)); //!
}

} // namespace
