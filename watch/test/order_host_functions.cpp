// SPDX-License-Identifier: MIT
// Missing waits behind host functions, which may wait for whatever the host knows.
#include "order_programs.hpp"

#include <cstdint>
#include <sched.h>

namespace {

void launch_function(CUstream on) {
  expect(cuLaunchHostFunc(
      on, [](void*) {}, nullptr));
}

/// The stream goes on when somebody has set the word.
void hold_until(unsigned& set, CUstream held) {
  const CUhostFn wait = [](void* word) {
    while (__atomic_load_n(static_cast<unsigned*>(word), __ATOMIC_ACQUIRE) == 0)
      sched_yield();
  };
  expect(cuLaunchHostFunc(held, wait, &set));
}

MISTAKE("unordered-copies", read_behind_a_host_function,
        "a stream reads behind a host function what another stream writes", with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  zero(memory, gpu.a); //!
  launch_function(gpu.b);
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host, memory, block, gpu.b)); //!
  finish(gpu.b);
}

MISTAKE("unordered-copies", written_behind_a_host_function,
        "another stream reads what a stream writes behind a host function", with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  launch_function(gpu.a);
  zero(memory, gpu.a); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host, memory, block, gpu.b)); //!
  expect(cuCtxSynchronize());
}

MISTAKE("freed-while-used", freed_after_a_use_behind_a_host_function,
        "memory is freed while its last copy waits behind a host function", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a), to = on_device();
  order(gpu, gpu.a, gpu.b);
  launch_function(gpu.b);
  expect(cuMemcpyDtoDAsync(to, memory, block, gpu.b)); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(memory, gpu.a)); //!
}

MISTAKE("freed-while-used", freed_after_a_kernel_behind_a_host_function,
        "memory is freed while a kernel with its address waits behind a host function", with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = from_pool(gpu.a);
  void* arguments[] = {&memory};
  order(gpu, gpu.a, gpu.b);
  launch_function(gpu.b);
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.b, arguments, nullptr)); //!
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(memory, gpu.a)); //!
}

MISTAKE("freed-while-used", freed_behind_a_host_function,
        "a free comes after a host function, and not after the use", with_order) {
  const CUdeviceptr memory = from_pool(gpu.a), to = on_device();
  order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoDAsync(to, memory, block, gpu.b)); //!
  launch_function(gpu.a);
  if (corrected) order(gpu, gpu.b, gpu.a);
  expect(cuMemFreeAsync(memory, gpu.a)); //!
  finish(gpu.a);
}

MISTAKE("unordered-kernel", kernel_behind_a_host_function,
        "kernels behind host functions get memory that another stream copies", with_order) {
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = on_device();
  const CUdeviceptr to = on_device();
  void* arguments[] = {&memory};
  for (int step = 0; step < 4; ++step) {
    expect(cuMemcpyDtoDAsync(to, memory, block, gpu.a)); //!
    launch_function(gpu.b);
    if (corrected) order(gpu, gpu.a, gpu.b);
    expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.b, arguments, nullptr)); //!
    finish(gpu.b);
    finish(gpu.a);
  }
}

HARMLESS(free_waits_for_a_worker,
         "a free is behind a host function that waits for a thread, which waits for the other stream",
         with_order) {
  static unsigned done = 0;
  const CUdeviceptr memory = from_pool(gpu.a);
  order(gpu, gpu.a, gpu.b);
  hold_until(done, gpu.a);
  zero(memory, gpu.b);
  expect(cuMemFreeAsync(memory, gpu.a));
  finish(gpu.b);
  __atomic_store_n(&done, 1U, __ATOMIC_RELEASE);
  finish(gpu.a);
}

HARMLESS(kernels_wait_for_a_worker,
         "kernels are behind host functions that wait for a thread, which waits for the other stream",
         with_order) {
  static unsigned done = 0;
  const CUfunction touch = kernel("touch");
  CUdeviceptr memory = on_device();
  void* arguments[] = {&memory};
  for (int step = 0; step < 4; ++step) {
    __atomic_store_n(&done, 0U, __ATOMIC_RELEASE);
    hold_until(done, gpu.b);
    zero(memory, gpu.a);
    expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, gpu.b, arguments, nullptr));
    finish(gpu.a);
    __atomic_store_n(&done, 1U, __ATOMIC_RELEASE);
    finish(gpu.b);
  }
}

HARMLESS(function_waits_for_a_worker, "a host function waits for a thread, which waits for the other stream",
         with_order) {
  static unsigned done = 0;
  const CUdeviceptr memory = on_device();
  hold_until(done, gpu.b);
  zero(memory, gpu.a);
  expect(cuMemsetD8Async(memory, 1, block, gpu.b));
  finish(gpu.a);
  __atomic_store_n(&done, 1U, __ATOMIC_RELEASE);
  finish(gpu.b);
}

HARMLESS(function_waits_for_later_work, "a host function waits for work that is submitted later",
         with_order) {
  static unsigned done = 0;
  const CUdeviceptr memory = on_device();
  hold_until(done, gpu.b);
  expect(cuMemsetD8Async(memory, 1, block, gpu.b));
  zero(memory, gpu.a);
  finish(gpu.a);
  __atomic_store_n(&done, 1U, __ATOMIC_RELEASE);
  finish(gpu.b);
}

HARMLESS(function_behind_a_value,
         "a host function behind a wait for a value, which comes from the other stream", with_order) {
  const CUdeviceptr memory = on_device();
  char* const words = pinned();
  const CUdeviceptr word = reinterpret_cast<std::uintptr_t>(words);
  __atomic_store_n(reinterpret_cast<unsigned*>(words), 0U, __ATOMIC_RELEASE);
  expect(cuStreamWaitValue32(gpu.b, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  launch_function(gpu.b);
  zero(memory, gpu.b);
  zero(memory, gpu.a);
  expect(cuStreamWriteValue32(gpu.a, word, 1, 0));
  expect(cuCtxSynchronize());
}

} // namespace
