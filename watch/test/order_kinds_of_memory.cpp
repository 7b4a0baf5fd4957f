// SPDX-License-Identifier: MIT
// Missing waits next to memory that cuMemAlloc has not made: of the host, mapped, of modules, in arrays, of
// other processes.
#include "order_programs.hpp"

#include <memory>
#include <sched.h>

namespace {

constexpr std::size_t piece = std::size_t{2} << 20; // of mapped memory

/// Address space with memory in its pieces, as allocators with segments that grow have.
class Mapped {
public:
  Mapped() { expect(cuMemAddressReserve(&begin, pieces * piece, 0, 0, 0)); }

  void map(std::size_t at, CUmemLocationType where = CU_MEM_LOCATION_TYPE_DEVICE) const {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = where;
    CUmemGenericAllocationHandle handle = 0;
    expect(cuMemCreate(&handle, piece, &properties, 0));
    map(at, handle);
    expect(cuMemRelease(handle));
  }
  void map(std::size_t at, CUmemGenericAllocationHandle handle) const {
    expect(cuMemMap(begin + at * piece, piece, 0, handle, 0));
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    expect(cuMemSetAccess(begin + at * piece, piece, &access, 1));
  }
  void unmap(std::size_t at) const { expect(cuMemUnmap(begin + at * piece, piece)); }

  CUdeviceptr begin = 0;

private:
  static constexpr std::size_t pieces = 4;
};

/// `__device__` memory of a module.
CUdeviceptr variable() {
  constexpr char code[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .global .align 16 .b8 table[4096];\n";
  CUmodule module = nullptr;
  CUdeviceptr found = 0;
  std::size_t size = 0;
  expect(cuModuleLoadData(&module, code));
  expect(cuModuleGetGlobal(&found, &size, module, "table"));
  return found;
}

CUarray array() {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = block;
  shape.Height = 1;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  shape.NumChannels = 1;
  CUarray made = nullptr;
  expect(cuArray3DCreate(&made, &shape));
  return made;
}

MISTAKE("unordered-copies", small_upload_between,
        "parameters are uploaded from the stack, and a wait is missing", with_order) {
  const CUdeviceptr memory = on_device(), parameters = on_device();
  char* const host = pinned();
  const int on_stack[16] = {1, 2, 3};
  zero(memory, gpu.a); //!
  expect(cuMemcpyHtoDAsync(parameters, on_stack, sizeof on_stack, gpu.a));
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host, memory, block, gpu.b)); //!
}

MISTAKE("unordered-copies", uploaded_from_pageable_memory,
        "what is uploaded from pageable memory is read by another stream", with_order) {
  const CUdeviceptr memory = on_device(), to = on_device();
  const std::vector<char> host(block);
  expect(cuMemcpyAsync(memory, reinterpret_cast<std::uintptr_t>(host.data()), block, gpu.a)); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoDAsync(to, memory, block, gpu.b)); //!
}

MISTAKE("unordered-copies", upload_in_a_graph,
        "a graph has an upload from pageable memory, and a wait is missing", with_order) {
  const CUdeviceptr memory = on_device(), parameters = on_device();
  char* const host = pinned();
  static const int values[16] = {1, 2, 3};
  const CUgraphExec exec = captured(gpu.a, [&] {
    zero(memory, gpu.a);
    expect(cuMemcpyHtoDAsync(parameters, values, sizeof values, gpu.a));
  });
  expect(cuGraphLaunch(exec, gpu.a)); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host, memory, block, gpu.b)); //!
}

MISTAKE("unordered-copies", blocking_upload_returns_early,
        "cuMemcpyHtoD of some MiB returns before the data is on the device", with_order) {
  constexpr std::size_t bytes = std::size_t{4} << 20;
  const CUdeviceptr memory = on_device(bytes), to = on_device(bytes);
  const std::vector<char> host(bytes);
  expect(cuMemcpyHtoD(memory, host.data(), bytes)); //!
  if (corrected) expect(cuStreamSynchronize(nullptr));
  expect(cuMemcpyDtoDAsync(to, memory, bytes, gpu.b)); //!
}

MISTAKE("unordered-copies", variable_between, "a copy to a variable of a module, and a wait is missing",
        with_order) {
  const CUdeviceptr memory = on_device(), constants = variable();
  char* const host = pinned();
  zero(memory, gpu.a); //!
  expect(cuMemcpyHtoDAsync(constants, host, 64, gpu.a));
  expect(cuMemsetD8Async(constants, 0, 64, gpu.a));
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoDAsync(constants + 64, memory, 64, gpu.b)); //!
}

MISTAKE("unordered-copies", variable_overwritten, "a variable of a module is overwritten while it is read",
        with_order) {
  const CUdeviceptr constants = variable();
  char* const host = pinned();
  expect(cuMemcpyDtoHAsync(host, constants, block, gpu.a)); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  zero(constants, gpu.b); //!
}

MISTAKE("unordered-copies", array_between, "a copy to an array, and a wait is missing", with_order) {
  const CUdeviceptr memory = on_device();
  char* const host = pinned();
  zero(memory, gpu.a); //!
  expect(cuMemcpyHtoAAsync(array(), 0, host, 64, gpu.a));
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host + 64, memory, 64, gpu.b)); //!
}

MISTAKE("unordered-copies", expandable_segment, "two streams use a tensor in mapped memory", with_order) {
  char* const host = pinned();
  const Mapped segment;
  segment.map(0);
  segment.map(1);
  const CUdeviceptr tensor = segment.begin + piece - block / 2; // in both pieces
  zero(tensor, gpu.a);                                          //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoHAsync(host, tensor, block, gpu.b)); //!
}

MISTAKE("freed-while-used", unmapped_too_early, "memory is unmapped while a stream uses it", with_order) {
  const Mapped segment;
  segment.map(0);
  segment.map(1);
  zero(segment.begin + piece, gpu.a); //!
  if (corrected) finish(gpu.a);
  expect(cuMemUnmap(segment.begin + piece, piece)); //!
}

MISTAKE("unordered-copies", rows_from_pageable_memory,
        "rows are uploaded from pageable memory, without a wait", with_order) {
  const CUdeviceptr memory = on_device(), to = on_device();
  const std::vector<char> host(block);
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = host.data();
  rows.srcPitch = 64;
  rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rows.dstDevice = memory;
  rows.dstPitch = 64;
  rows.WidthInBytes = 32;
  rows.Height = 16;
  expect(cuMemcpy2DAsync(&rows, gpu.a)); //!
  if (corrected) order(gpu, gpu.a, gpu.b);
  expect(cuMemcpyDtoDAsync(to, memory, block, gpu.b)); //!
}

// What waits, or what somebody else may see.

HARMLESS(download_to_pageable_memory, "a copy to pageable memory returns when it is done", with_order) {
  const CUdeviceptr memory = on_device();
  std::vector<char> host(block);
  for (int i = 0; i < 10; ++i) {
    zero(memory, i % 2 == 0 ? gpu.a : gpu.b);
    expect(cuMemcpyDtoHAsync(host.data(), memory, block, i % 2 == 0 ? gpu.a : gpu.b));
  }
}

HARMLESS(large_upload, "a large copy from pageable memory returns when it is done", with_order) {
  constexpr std::size_t bytes = std::size_t{32} << 20;
  const CUdeviceptr memory = on_device(bytes);
  const std::vector<char> host(bytes);
  for (const CUstream stream : {gpu.a, gpu.b, gpu.a})
    expect(cuMemcpyHtoDAsync(memory, host.data(), bytes, stream));
  expect(cuMemcpyHtoD(memory, host.data(), bytes));
  zero(memory, gpu.b);
}

HARMLESS(small_blocking_upload, "a small cuMemcpyHtoD has copied when it returns", with_order) {
  const CUdeviceptr memory = on_device();
  const std::vector<char> host(block);
  for (int i = 0; i < 10; ++i) {
    expect(cuMemcpyHtoD(memory, host.data(), block));
    zero(memory, i % 2 == 0 ? gpu.a : gpu.b);
    finish(i % 2 == 0 ? gpu.a : gpu.b);
  }
}

HARMLESS(between_host_blocks, "a copy between two pinned blocks returns when it is done", with_order) {
  char* const blocks[] = {pinned(), pinned()};
  for (int i = 0; i < 10; ++i)
    expect(cuMemcpyAsync(reinterpret_cast<std::uintptr_t>(blocks[0]),
                         reinterpret_cast<std::uintptr_t>(blocks[1]), block, i % 2 == 0 ? gpu.a : gpu.b));
}

HARMLESS(managed_named_as_host, "a copy that names managed memory as the host's returns when it is done",
         with_order) {
  CUdeviceptr managed = 0;
  const CUdeviceptr memory = on_device();
  expect(cuMemAllocManaged(&managed, block, CU_MEM_ATTACH_GLOBAL));
  for (int i = 0; i < 10; ++i) {
    const CUstream stream = i % 2 == 0 ? gpu.a : gpu.b;
    expect(cuMemcpyHtoDAsync(memory, reinterpret_cast<const void*>(managed), block, stream));
    expect(cuMemcpyDtoHAsync(reinterpret_cast<void*>(managed), memory, block, stream));
  }
}

HARMLESS(segment_that_grows, "pieces are unmapped and mapped again after the host has waited", with_order) {
  const Mapped segment;
  for (int i = 0; i < 10; ++i) {
    segment.map(0);
    segment.map(1);
    zero(segment.begin + piece - block / 2, i % 2 == 0 ? gpu.a : gpu.b);
    finish(i % 2 == 0 ? gpu.a : gpu.b);
    segment.unmap(1);
    segment.unmap(0);
  }
}

HARMLESS(imported_status,
         "another process reads in imported memory that the work is done, and tells this one", with_order) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0, imported = 0;
  int descriptor = 0;
  expect(cuMemCreate(&handle, piece, &properties, 0));
  expect(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  expect(cuMemImportFromShareableHandle(&imported,
                                        reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  const CUdeviceptr memory = on_device();
  const Mapped shared;
  shared.map(0, imported);
  for (int i = 0; i < 10; ++i) {
    const CUstream stream = i % 2 == 0 ? gpu.a : gpu.b;
    zero(memory, stream);
    expect(cuMemsetD32Async(shared.begin, static_cast<unsigned>(i), 1, stream));
  }
}

} // namespace
