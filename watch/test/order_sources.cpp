// SPDX-License-Identifier: MIT
// Sources of copies that the host changes before the copies begin, and what looks like it and is right.
#include "order_programs.hpp"

#include <cstring>
#include <memory>
#include <unistd.h>

namespace {

/// A copy behind a kernel that takes a tenth of a second. check-programs tells the simulated driver so.
struct LateCopy {
  static constexpr unsigned long long nanoseconds = 100'000'000;
  CUfunction spin = kernel("_Z4spinPjy");
  CUdeviceptr told = on_device(), memory = on_device();
  char* source = pinned();

  explicit LateCopy(const Gpu& gpu) {
    zero(told, gpu.a);
    finish(gpu.a);
    std::memset(source, 1, block);
  }
  void keep_busy(CUstream on, CUdeviceptr until) const {
    unsigned long long bound = nanoseconds;
    void* arguments[] = {&until, &bound};
    expect(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, on, arguments, nullptr));
  }
  void keep_busy(CUstream on) const { keep_busy(on, told); }
  void copy(CUstream on) const { expect(cuMemcpyHtoDAsync(memory, source, block, on)); }
};

MISTAKE("source-changed", source_changed, "the host writes to the source, and then waits for the copy",
        with_order) {
  const LateCopy late(gpu);
  late.keep_busy(gpu.a);
  expect(cuMemcpyHtoDAsync(late.memory, late.source, block, gpu.a)); //!
  if (corrected) finish(gpu.a);
  std::memset(late.source, 2, block);
  finish(gpu.a);
}

MISTAKE("source-changed", source_of_the_next_copy, "a staging buffer is filled again for the next copy",
        with_order) {
  const LateCopy late(gpu);
  late.keep_busy(gpu.a);
  for (int i = 1; i <= 2; ++i) {
    std::memset(late.source, i, block);
    expect(cuMemcpyHtoDAsync(late.memory, late.source, block, gpu.a)); //!
    if (corrected) finish(gpu.a);
  }
}

MISTAKE("source-changed", registered_source, "the host's memory was registered, and rows of it are copied",
        with_order) {
  const LateCopy late(gpu);
  constexpr std::size_t rows = 8, width = 1024, pitch = 2048;
  const std::unique_ptr<char[]> bytes(new char[rows * pitch]());
  expect(cuMemHostRegister(bytes.get(), rows * pitch, CU_MEMHOSTREGISTER_PORTABLE));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = bytes.get();
  copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = on_device(rows * width);
  copy.dstPitch = width;
  copy.WidthInBytes = width;
  copy.Height = rows;
  late.keep_busy(gpu.a);
  expect(cuMemcpy2DAsync(&copy, gpu.a)); //!
  bytes[pitch - 1] = 1;                  // behind the first row
  if (corrected) finish(gpu.a);
  std::memset(bytes.get() + 3 * pitch, 5, width);
  finish(gpu.a);
  expect(cuMemHostUnregister(bytes.get()));
}

MISTAKE("source-changed", source_changed_between_queries,
        "no call waits: the host asks whether the copy is done", with_order) {
  const LateCopy late(gpu);
  late.keep_busy(gpu.a);
  expect(cuMemcpyHtoDAsync(late.memory, late.source, block, gpu.a)); //!
  if (corrected)
    while (cuStreamQuery(gpu.a) != CUDA_SUCCESS)
      usleep(1000);
  std::memset(late.source, 2, block);
  while (cuStreamQuery(gpu.a) != CUDA_SUCCESS)
    usleep(1000);
}

HARMLESS(source_of_a_host_function, "a host function before the copy fills the source", with_order) {
  const LateCopy late(gpu);
  expect(cuLaunchHostFunc(
      gpu.a, [](void* source) { std::memset(source, 2, block), usleep(1000); }, late.source));
  late.keep_busy(gpu.a);
  late.copy(gpu.a);
  finish(gpu.a);
}

HARMLESS(source_behind_a_gate, "the copy waits until the host has filled the source", with_order) {
  const LateCopy late(gpu);
  auto* const gate = reinterpret_cast<unsigned*>(pinned());
  *gate = 0;
  expect(cuStreamWaitValue32(gpu.a, reinterpret_cast<std::uintptr_t>(gate), 1, CU_STREAM_WAIT_VALUE_GEQ));
  late.copy(gpu.a);
  std::memset(late.source, 2, block);
  usleep(2000);
  __atomic_store_n(gate, 1U, __ATOMIC_RELEASE);
  finish(gpu.a);
}

HARMLESS(source_of_a_polling_kernel, "a kernel waits until the host has filled the source", with_order) {
  const LateCopy late(gpu);
  auto* const gate = reinterpret_cast<unsigned*>(pinned());
  *gate = 0;
  late.keep_busy(gpu.a, reinterpret_cast<std::uintptr_t>(gate));
  late.copy(gpu.a);
  std::memset(late.source, 2, block);
  usleep(2000);
  __atomic_store_n(gate, 1U, __ATOMIC_RELEASE);
  finish(gpu.a);
}

HARMLESS(source_of_a_download, "the copy before has written the source", with_order) {
  const LateCopy late(gpu);
  late.keep_busy(gpu.b);
  expect(cuMemcpyDtoHAsync(late.source, late.memory, block, gpu.b));
  late.keep_busy(gpu.b);
  order(gpu, gpu.b, gpu.a);
  late.copy(gpu.a);
  finish(gpu.a);
}

HARMLESS(same_source, "the host writes the same bytes, and bytes next to the source", with_order) {
  const LateCopy late(gpu);
  char* const twice = pinned(2 * block);
  std::memset(twice, 0, 2 * block);
  late.keep_busy(gpu.a);
  expect(cuMemcpyHtoDAsync(late.memory, twice, block, gpu.a));
  std::memset(twice, 0, block);
  std::memset(twice + block, 1, block);
  finish(gpu.a);
}

HARMLESS(freed_source, "the source is freed and allocated again, which waits for the copy", with_order) {
  for (int i = 0; i < 3; ++i) {
    const LateCopy late(gpu);
    late.keep_busy(gpu.a);
    late.copy(gpu.a);
    expect(cuMemFreeHost(late.source));
    std::memset(pinned(), 7 + i, block);
  }
  finish(gpu.a);
}

} // namespace
