// SPDX-License-Identifier: MIT
// Structures as arguments: a valid one, and those in which one member differs.
#include "structure.hpp"

namespace neighbours {
namespace {

void fill_copy(Stage& s, CUDA_MEMCPY2D& copy) {
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = s.memory();
  copy.dstDevice = s.target();
  copy.srcHost = s.room(8192);
  copy.dstHost = s.room(8192);
  copy.srcPitch = copy.dstPitch = 256;
  copy.WidthInBytes = 64;
  copy.Height = 4;
}
template <class Copy>
void fill_copy_3d(Stage& s, Copy& copy) {
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = s.memory();
  copy.dstDevice = s.target();
  copy.srcHost = s.room(8192);
  copy.dstHost = s.room(8192);
  copy.srcPitch = copy.dstPitch = 256;
  copy.srcHeight = copy.dstHeight = 4;
  copy.WidthInBytes = 64;
  copy.Height = 4;
  copy.Depth = 2;
}
void fill_copy(Stage& s, CUDA_MEMCPY3D_PEER& copy) {
  fill_copy_3d(s, copy);
  copy.srcContext = copy.dstContext = s.home;
}

template <class Copy>
std::vector<Change<Copy>> copy_changes() {
  return {
      CHANGE(Copy, srcMemoryType, 0),
      CHANGE(Copy, srcMemoryType, CU_MEMORYTYPE_HOST),
      CHANGE(Copy, srcMemoryType, CU_MEMORYTYPE_ARRAY),
      CHANGE(Copy, srcMemoryType, CU_MEMORYTYPE_UNIFIED),
      CHANGE(Copy, srcMemoryType, 5),
      CHANGE(Copy, dstMemoryType, 0),
      CHANGE(Copy, dstMemoryType, CU_MEMORYTYPE_HOST),
      CHANGE(Copy, dstMemoryType, CU_MEMORYTYPE_ARRAY),
      CHANGE(Copy, dstMemoryType, CU_MEMORYTYPE_UNIFIED),
      CHANGE(Copy, dstMemoryType, 5),
      CHANGE(Copy, srcXInBytes, 1),
      CHANGE(Copy, srcXInBytes, 192),
      CHANGE(Copy, srcXInBytes, 193),
      CHANGE(Copy, srcXInBytes, huge),
      CHANGE(Copy, srcXInBytes, largest),
      CHANGE(Copy, dstXInBytes, 1),
      CHANGE(Copy, dstXInBytes, 192),
      CHANGE(Copy, dstXInBytes, 193),
      CHANGE(Copy, dstXInBytes, huge),
      CHANGE(Copy, dstXInBytes, largest),
      CHANGE(Copy, srcY, 1),
      CHANGE(Copy, srcY, huge),
      CHANGE(Copy, dstY, 1),
      CHANGE(Copy, dstY, huge),
      CHANGE(Copy, srcDevice, 0),
      CHANGE(Copy, dstDevice, 0),
      CHANGE(Copy, srcDevice, s.pinned()),
      CHANGE(Copy, dstDevice, s.pinned()),
      CHANGE(Copy, srcDevice, s.managed()),
      CHANGE(Copy, dstDevice, s.managed()),
      CHANGE(Copy, srcDevice, s.other_memory()),
      CHANGE(Copy, dstDevice, s.other_memory()),
      CHANGE(Copy, srcDevice, s.freed()),
      CHANGE(Copy, dstDevice, s.freed()),
      CHANGE(Copy, srcDevice, s.room(8192)),
      CHANGE(Copy, dstDevice, s.room(8192)),
      CHANGE(Copy, srcDevice, s.memory() + 1),
      CHANGE(Copy, dstDevice, s.target() + 1),
      CHANGE(Copy, srcPitch, 0),
      CHANGE(Copy, srcPitch, 63),
      CHANGE(Copy, srcPitch, 64),
      CHANGE(Copy, srcPitch, 65),
      CHANGE(Copy, srcPitch, std::size_t{1} << 31),
      CHANGE(Copy, srcPitch, huge),
      CHANGE(Copy, dstPitch, 0),
      CHANGE(Copy, dstPitch, 63),
      CHANGE(Copy, dstPitch, 64),
      CHANGE(Copy, dstPitch, 65),
      CHANGE(Copy, dstPitch, std::size_t{1} << 31),
      CHANGE(Copy, dstPitch, huge),
      CHANGE(Copy, WidthInBytes, 0),
      CHANGE(Copy, WidthInBytes, 1),
      CHANGE(Copy, WidthInBytes, 256),
      CHANGE(Copy, WidthInBytes, 257),
      CHANGE(Copy, WidthInBytes, huge),
      CHANGE(Copy, Height, 0),
      CHANGE(Copy, Height, 1),
      CHANGE(Copy, Height, 5),
      CHANGE(Copy, Height, huge),
      Change<Copy>{"from_null_host",
                   [](Stage&, Copy& c) {
                     c.srcMemoryType = CU_MEMORYTYPE_HOST;
                     c.srcHost = nullptr;
                   }},
      Change<Copy>{"to_null_host",
                   [](Stage&, Copy& c) {
                     c.dstMemoryType = CU_MEMORYTYPE_HOST;
                     c.dstHost = nullptr;
                   }},
      Change<Copy>{"from_pinned_host",
                   [](Stage& s, Copy& c) {
                     c.srcMemoryType = CU_MEMORYTYPE_HOST;
                     c.srcHost = s.pinned();
                   }},
      Change<Copy>{"to_pinned_host",
                   [](Stage& s, Copy& c) {
                     c.dstMemoryType = CU_MEMORYTYPE_HOST;
                     c.dstHost = s.pinned();
                   }},
      Change<Copy>{"host_to_host",
                   [](Stage&, Copy& c) { c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_HOST; }},
      Change<Copy>{"unified_pageable",
                   [](Stage& s, Copy& c) {
                     c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
                     c.srcDevice = (CUdeviceptr)s.room(8192);
                   }},
      Change<Copy>{"same_place", [](Stage&, Copy& c) { c.dstDevice = c.srcDevice; }},
  };
}
template <class Copy>
std::vector<Change<Copy>> deep_changes() {
  auto all = copy_changes<Copy>();
  for (const Change<Copy>& change :
       {CHANGE(Copy, srcZ, 1), CHANGE(Copy, srcZ, huge), CHANGE(Copy, dstZ, 1), CHANGE(Copy, srcLOD, 1),
        CHANGE(Copy, dstLOD, 1), CHANGE(Copy, srcHeight, 0), CHANGE(Copy, srcHeight, 3),
        CHANGE(Copy, srcHeight, 5), CHANGE(Copy, dstHeight, 0), CHANGE(Copy, dstHeight, 3),
        CHANGE(Copy, dstHeight, 5), CHANGE(Copy, Depth, 0), CHANGE(Copy, Depth, 1), CHANGE(Copy, Depth, 3),
        CHANGE(Copy, Depth, huge)})
    all.push_back(change);
  return all;
}
std::vector<Change<CUDA_MEMCPY3D>> plain_deep_changes() {
  auto all = deep_changes<CUDA_MEMCPY3D>();
  all.push_back(CHANGE(CUDA_MEMCPY3D, reserved0, s.room(64)));
  all.push_back(CHANGE(CUDA_MEMCPY3D, reserved1, s.room(64)));
  return all;
}
std::vector<Change<CUDA_MEMCPY3D_PEER>> peer_changes() {
  auto all = deep_changes<CUDA_MEMCPY3D_PEER>();
  for (const auto& change :
       {CHANGE(CUDA_MEMCPY3D_PEER, srcContext, nullptr), CHANGE(CUDA_MEMCPY3D_PEER, dstContext, nullptr),
        CHANGE(CUDA_MEMCPY3D_PEER, srcContext, s.other()), CHANGE(CUDA_MEMCPY3D_PEER, dstContext, s.other())})
    all.push_back(change);
  return all;
}

void fill_memset(Stage& s, CUDA_MEMSET_NODE_PARAMS& fill) {
  fill.dst = s.memory();
  fill.elementSize = 4;
  fill.pitch = 256;
  fill.width = 16;
  fill.height = 1;
}
std::vector<Change<CUDA_MEMSET_NODE_PARAMS>> memset_changes() {
  using T = CUDA_MEMSET_NODE_PARAMS;
  return {CHANGE(T, dst, 0),
          CHANGE(T, dst, s.memory() + 1),
          CHANGE(T, dst, s.memory() + 2),
          CHANGE(T, dst, s.pinned()),
          CHANGE(T, dst, s.managed()),
          CHANGE(T, dst, s.other_memory()),
          CHANGE(T, dst, s.freed()),
          CHANGE(T, dst, s.room(4096)),
          CHANGE(T, pitch, 0),
          CHANGE(T, pitch, 15),
          CHANGE(T, pitch, 63),
          CHANGE(T, pitch, huge),
          CHANGE(T, value, 255),
          CHANGE(T, value, 0xffffffffu),
          CHANGE(T, elementSize, 0),
          CHANGE(T, elementSize, 1),
          CHANGE(T, elementSize, 2),
          CHANGE(T, elementSize, 3),
          CHANGE(T, elementSize, 8),
          CHANGE(T, width, 0),
          CHANGE(T, width, 1),
          CHANGE(T, width, 64),
          CHANGE(T, width, 65),
          CHANGE(T, width, huge),
          CHANGE(T, height, 0),
          CHANGE(T, height, 2),
          CHANGE(T, height, 3),
          CHANGE(T, height, huge),
          Change<T>{"value_of_byte",
                    [](Stage&, T& t) {
                      t.elementSize = 1;
                      t.value = 256;
                    }},
          Change<T>{"value_of_two_bytes",
                    [](Stage&, T& t) {
                      t.elementSize = 2;
                      t.value = 65536;
                    }},
          Change<T>{"two_rows_without_pitch",
                    [](Stage&, T& t) {
                      t.height = 2;
                      t.pitch = 0;
                    }},
          Change<T>{"two_rows_with_odd_pitch",
                    [](Stage&, T& t) {
                      t.height = 2;
                      t.pitch = 65;
                    }},
          Change<T>{"two_rows_with_small_pitch", [](Stage&, T& t) {
                      t.height = 2;
                      t.pitch = 32;
                    }}};
}

void fill_kernel(Stage& s, CUDA_KERNEL_NODE_PARAMS& kernel) {
  kernel.func = s.function();
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
}
std::vector<Change<CUDA_KERNEL_NODE_PARAMS>> kernel_changes() {
  using T = CUDA_KERNEL_NODE_PARAMS;
  return {CHANGE(T, func, nullptr),
          CHANGE(T, func, s.with_parameters()),
          CHANGE(T, gridDimX, 0),
          CHANGE(T, gridDimY, 0),
          CHANGE(T, gridDimZ, 0),
          CHANGE(T, gridDimX, 0x7fffffff),
          CHANGE(T, gridDimX, 0x80000000u),
          CHANGE(T, gridDimY, 65536),
          CHANGE(T, gridDimZ, 65536),
          CHANGE(T, blockDimX, 0),
          CHANGE(T, blockDimY, 0),
          CHANGE(T, blockDimZ, 0),
          CHANGE(T, blockDimX, 1024),
          CHANGE(T, blockDimX, 1025),
          CHANGE(T, blockDimY, 1025),
          CHANGE(T, blockDimZ, 65),
          CHANGE(T, sharedMemBytes, 1),
          CHANGE(T, sharedMemBytes, 49152),
          CHANGE(T, sharedMemBytes, 49153),
          CHANGE(T, kernelParams, s.room(64)),
          CHANGE(T, extra, s.room(64)),
          CHANGE(T, kern, s.kernel()),
          CHANGE(T, ctx, s.home),
          CHANGE(T, ctx, s.other()),
          Change<T>{"both_func_and_kern", [](Stage& s, T& t) { t.kern = s.kernel(); }},
          Change<T>{"only_kern",
                    [](Stage& s, T& t) {
                      t.func = nullptr;
                      t.kern = s.kernel();
                      void** const values = static_cast<void**>(s.room(64));
                      values[0] = values[1] = s.room(64);
                      t.kernelParams = values;
                    }},
          Change<T>{"with_parameters", [](Stage& s, T& t) {
                      t.func = s.with_parameters();
                      void** const values = static_cast<void**>(s.room(64));
                      values[0] = values[1] = s.room(64);
                      t.kernelParams = values;
                    }}};
}

void CUDA_CB nothing(void*) {}

void fill_host(Stage&, CUDA_HOST_NODE_PARAMS& host) { host.fn = nothing; }

void fill_location(Stage&, CUmemLocation& location) { location.type = CU_MEM_LOCATION_TYPE_DEVICE; }
std::vector<Change<CUmemLocation>> location_changes() {
  using T = CUmemLocation;
  return {CHANGE(T, type, 0),
          CHANGE(T, type, 2),
          CHANGE(T, type, 3),
          CHANGE(T, type, 4),
          CHANGE(T, type, 5),
          CHANGE(T, type, -1),
          CHANGE(T, id, 1),
          CHANGE(T, id, -1),
          CHANGE(T, id, -2),
          CHANGE(T, id, 1000),
          Change<T>{"host_1",
                    [](Stage&, T& t) {
                      t.type = (CUmemLocationType)2;
                      t.id = 1;
                    }},
          Change<T>{"host_numa_-1",
                    [](Stage&, T& t) {
                      t.type = (CUmemLocationType)3;
                      t.id = -1;
                    }},
          Change<T>{"host_numa_77",
                    [](Stage&, T& t) {
                      t.type = (CUmemLocationType)3;
                      t.id = 77;
                    }},
          Change<T>{"host_numa_current_77",
                    [](Stage&, T& t) {
                      t.type = (CUmemLocationType)4;
                      t.id = 77;
                    }},
          Change<T>{"none_1", [](Stage&, T& t) {
                      t.type = (CUmemLocationType)0;
                      t.id = 1;
                    }}};
}

void fill_pool(Stage&, CUmemPoolProps& properties) {
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
}
std::vector<Change<CUmemPoolProps>> pool_changes() {
  using T = CUmemPoolProps;
  std::vector<Change<T>> all{CHANGE(T, allocType, 0),    CHANGE(T, allocType, 2),
                             CHANGE(T, allocType, 3),    CHANGE(T, allocType, 0x7fffffff),
                             CHANGE(T, handleTypes, 1),  CHANGE(T, handleTypes, 2),
                             CHANGE(T, handleTypes, 3),  CHANGE(T, handleTypes, 4),
                             CHANGE(T, handleTypes, 8),  CHANGE(T, handleTypes, 16),
                             CHANGE(T, handleTypes, -1), CHANGE(T, win32SecurityAttributes, s.room(64)),
                             CHANGE(T, maxSize, 1),      CHANGE(T, maxSize, 1 << 25),
                             CHANGE(T, maxSize, huge),   CHANGE(T, maxSize, largest),
                             CHANGE(T, usage, 1),        CHANGE(T, usage, 2),
                             CHANGE(T, usage, 0xffff),   CHANGE(T, reserved[0], 1),
                             CHANGE(T, reserved[53], 1)};
  for (int type = 1; type <= 2; ++type)
    for (int where = -1; where <= 5; ++where)
      for (int id : {-1, 0, 1, 77})
        for (int handle : {0, 1}) {
          const std::string label = (type == 1 ? "pinned_" : "managed_") + std::to_string(where) + "_" +
                                    std::to_string(id) + (handle ? "_shared" : "");
          all.push_back({label, [=](Stage&, T& t) {
                           t.allocType = (CUmemAllocationType)type;
                           t.location.type = (CUmemLocationType)where;
                           t.location.id = id;
                           t.handleTypes = (CUmemAllocationHandleType)handle;
                         }});
        }
  return all;
}

void fill_access(Stage&, CUmemAccessDesc& access) {
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}
std::vector<Change<CUmemAccessDesc>> access_changes() {
  using T = CUmemAccessDesc;
  return {CHANGE(T, flags, 0),          CHANGE(T, flags, 1),         CHANGE(T, flags, 2),
          CHANGE(T, flags, 4),          CHANGE(T, flags, -1),        CHANGE(T, location.type, 0),
          CHANGE(T, location.type, 2),  CHANGE(T, location.type, 3), CHANGE(T, location.type, 4),
          CHANGE(T, location.type, 77), CHANGE(T, location.id, 1),   CHANGE(T, location.id, -1),
          CHANGE(T, location.id, 77)};
}

void fill_launch(Stage& s, CUlaunchConfig& config) {
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = s.stream();
  config.attrs = &s.make<CUlaunchAttribute>();
}
std::vector<Change<CUlaunchConfig>> launch_changes() {
  using T = CUlaunchConfig;
  std::vector<Change<T>> all{CHANGE(T, gridDimX, 0),
                             CHANGE(T, gridDimY, 0),
                             CHANGE(T, gridDimZ, 0),
                             CHANGE(T, gridDimX, 0x7fffffff),
                             CHANGE(T, gridDimX, 0x80000000u),
                             CHANGE(T, gridDimY, 65535),
                             CHANGE(T, gridDimY, 65536),
                             CHANGE(T, gridDimZ, 65536),
                             CHANGE(T, blockDimX, 0),
                             CHANGE(T, blockDimY, 0),
                             CHANGE(T, blockDimZ, 0),
                             CHANGE(T, blockDimX, 1024),
                             CHANGE(T, blockDimX, 1025),
                             CHANGE(T, blockDimY, 1025),
                             CHANGE(T, blockDimZ, 64),
                             CHANGE(T, blockDimZ, 65),
                             CHANGE(T, sharedMemBytes, 1),
                             CHANGE(T, sharedMemBytes, 49152),
                             CHANGE(T, sharedMemBytes, 49153),
                             CHANGE(T, hStream, nullptr),
                             CHANGE(T, hStream, CU_STREAM_PER_THREAD),
                             CHANGE(T, hStream, s.capturing()),
                             CHANGE(T, attrs, nullptr),
                             Change<T>{"block_32_33",
                                       [](Stage&, T& t) {
                                         t.blockDimX = 32;
                                         t.blockDimY = 33;
                                       }},
                             Change<T>{"one_null_attribute",
                                       [](Stage&, T& t) {
                                         t.numAttrs = 1;
                                         t.attrs = nullptr;
                                       }},
                             Change<T>{"too_many_attributes", [](Stage& s, T& t) {
                                         t.attrs = static_cast<CUlaunchAttribute*>(
                                             s.room(64 * sizeof(CUlaunchAttribute)));
                                         t.numAttrs = 64;
                                       }}};
  for (int id = -1; id <= 20; ++id)
    for (int value : {0, 1})
      all.push_back({"attribute_" + std::to_string(id) + "_" + std::to_string(value), [=](Stage&, T& t) {
                       t.numAttrs = 1;
                       t.attrs->id = (CUlaunchAttributeID)id;
                       t.attrs->value.cooperative = value;
                     }});
  return all;
}

std::vector<Change<CUstreamBatchMemOpParams>> value_changes() {
  using T = CUstreamBatchMemOpParams;
  std::vector<Change<T>> all{CHANGE(T, writeValue.address, 0),
                             CHANGE(T, writeValue.address, s.memory() + 1),
                             CHANGE(T, writeValue.address, s.memory() + 2),
                             CHANGE(T, writeValue.address, s.pinned()),
                             CHANGE(T, writeValue.address, s.room(64)),
                             CHANGE(T, writeValue.address, s.other_memory()),
                             CHANGE(T, writeValue.flags, 1),
                             CHANGE(T, writeValue.flags, 2),
                             CHANGE(T, writeValue.flags, 0x80000000u),
                             CHANGE(T, writeValue.alias, 1)};
  for (int operation : {0, 1, 2, 3, 4, 5, 6, 7, -1})
    for (unsigned flags : {0u, 1u, 2u})
      all.push_back(
          {"operation_" + std::to_string(operation) + "_" + std::to_string(flags), [=](Stage&, T& t) {
             t.operation = (CUstreamBatchMemOpType)operation;
             if (operation == 3 || operation == 6) t.flushRemoteWrites.flags = flags;
             if (operation != 3 && operation != 6) t.writeValue.flags = flags;
           }});
  return all;
}

void fill_batch(Stage& s, CUDA_BATCH_MEM_OP_NODE_PARAMS& batch) {
  batch.ctx = s.home;
  batch.count = 1;
  batch.paramArray = &s.make<CUstreamBatchMemOpParams>();
  fill_values(s, *batch.paramArray);
}

void fill_attributes(Stage&, CUmemcpyAttributes& attributes) {
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
}
std::vector<Change<CUmemcpyAttributes>> attribute_changes() {
  using T = CUmemcpyAttributes;
  return {CHANGE(T, srcAccessOrder, 0),
          CHANGE(T, srcAccessOrder, 2),
          CHANGE(T, srcAccessOrder, 3),
          CHANGE(T, srcAccessOrder, 4),
          CHANGE(T, srcAccessOrder, -1),
          CHANGE(T, flags, 1),
          CHANGE(T, flags, 2),
          CHANGE(T, flags, 4),
          CHANGE(T, flags, 0x80000000u),
          CHANGE(T, srcLocHint.type, 1),
          CHANGE(T, srcLocHint.type, 2),
          CHANGE(T, srcLocHint.type, 77),
          CHANGE(T, dstLocHint.type, 1),
          CHANGE(T, dstLocHint.type, 77),
          CHANGE(T, srcLocHint.id, 77),
          Change<T>{"hint_of_device_77", [](Stage&, T& t) {
                      t.srcLocHint.type = (CUmemLocationType)1;
                      t.srcLocHint.id = 77;
                    }}};
}

void fill_boxes(Stage& s, CUDA_MEMCPY3D_BATCH_OP& operation) {
  operation.src.type = operation.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  operation.src.op.ptr.ptr = s.memory();
  operation.dst.op.ptr.ptr = s.target();
  operation.extent = {64, 4, 2};
  operation.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
}
std::vector<Change<CUDA_MEMCPY3D_BATCH_OP>> box_changes() {
  using T = CUDA_MEMCPY3D_BATCH_OP;
  return {CHANGE(T, src.type, 0),
          CHANGE(T, src.type, 2),
          CHANGE(T, src.type, 3),
          CHANGE(T, dst.type, 0),
          CHANGE(T, dst.type, 3),
          CHANGE(T, src.op.ptr.ptr, 0),
          CHANGE(T, dst.op.ptr.ptr, 0),
          CHANGE(T, src.op.ptr.ptr, s.room(4096)),
          CHANGE(T, src.op.ptr.ptr, s.pinned()),
          CHANGE(T, src.op.ptr.rowLength, 63),
          CHANGE(T, src.op.ptr.rowLength, 64),
          CHANGE(T, src.op.ptr.rowLength, 128),
          CHANGE(T, src.op.ptr.rowLength, huge),
          CHANGE(T, src.op.ptr.layerHeight, 3),
          CHANGE(T, src.op.ptr.layerHeight, 4),
          CHANGE(T, src.op.ptr.layerHeight, 5),
          CHANGE(T, dst.op.ptr.rowLength, 63),
          CHANGE(T, dst.op.ptr.layerHeight, 3),
          CHANGE(T, src.op.ptr.locHint.type, 1),
          CHANGE(T, src.op.ptr.locHint.type, 77),
          CHANGE(T, src.op.ptr.locHint.id, 77),
          CHANGE(T, extent.width, 0),
          CHANGE(T, extent.width, 1),
          CHANGE(T, extent.width, huge),
          CHANGE(T, extent.height, 0),
          CHANGE(T, extent.height, 1),
          CHANGE(T, extent.depth, 0),
          CHANGE(T, extent.depth, 1),
          CHANGE(T, srcAccessOrder, 0),
          CHANGE(T, srcAccessOrder, 2),
          CHANGE(T, srcAccessOrder, 3),
          CHANGE(T, srcAccessOrder, 4),
          CHANGE(T, flags, 1),
          CHANGE(T, flags, 2),
          CHANGE(T, flags, 0x80000000u)};
}

std::vector<Change<CUctxCreateParams>> context_changes() {
  using T = CUctxCreateParams;
  return {CHANGE(T, execAffinityParams, s.room(64)), CHANGE(T, numExecAffinityParams, 1),
          CHANGE(T, numExecAffinityParams, -1), CHANGE(T, cigParams, s.room(64)),
          Change<T>{"one_affinity", [](Stage& s, T& t) {
                      auto& affinity = s.make<CUexecAffinityParam>();
                      affinity.param.smCount.val = 8;
                      t.execAffinityParams = &affinity;
                      t.numExecAffinityParams = 1;
                    }}};
}

std::vector<Change<CUexecAffinityParam>> affinity_changes() {
  using T = CUexecAffinityParam;
  return {CHANGE(T, type, 1), CHANGE(T, type, -1), CHANGE(T, param.smCount.val, 0),
          CHANGE(T, param.smCount.val, 8), CHANGE(T, param.smCount.val, 10000)};
}

std::vector<Change<CUDA_GRAPH_INSTANTIATE_PARAMS>> instantiate_changes() {
  using T = CUDA_GRAPH_INSTANTIATE_PARAMS;
  std::vector<Change<T>> all{CHANGE(T, hUploadStream, s.stream()),
                             CHANGE(T, hUploadStream, CU_STREAM_LEGACY),
                             CHANGE(T, hUploadStream, s.capturing()),
                             Change<T>{"upload_without_stream", [](Stage&, T& t) { t.flags = 2; }},
                             Change<T>{"upload",
                                       [](Stage& s, T& t) {
                                         t.flags = 2;
                                         t.hUploadStream = s.stream();
                                       }},
                             Change<T>{"upload_while_capturing", [](Stage& s, T& t) {
                                         t.flags = 2;
                                         t.hUploadStream = s.capturing();
                                       }}};
  for (int bit = 0; bit < 10; ++bit)
    all.push_back({"flags_" + std::to_string(1 << bit), [=](Stage&, T& t) { t.flags = 1u << bit; }});
  return all;
}

void fill_resource(Stage& s, CUdevResource& resource) {
  s.must(s.cu.DeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
}
std::vector<Change<CUdevResource>> resource_changes() {
  using T = CUdevResource;
  return {CHANGE(T, type, 0),
          CHANGE(T, type, 2),
          CHANGE(T, type, 1000),
          CHANGE(T, sm.smCount, 0),
          CHANGE(T, sm.smCount, 7),
          CHANGE(T, sm.smCount, 8),
          CHANGE(T, sm.smCount, 100),
          CHANGE(T, sm.smCount, 10000),
          Change<T>{"zeros", [](Stage&, T& t) { t = T{}; }},
          Change<T>{"part", [](Stage& s, T& t) {
                      unsigned groups = 1;
                      const T whole = t;
                      s.must(s.cu.DevSmResourceSplitByCount(&t, &groups, &whole, nullptr, 0, 16),
                             "cuDevSmResourceSplitByCount");
                    }}};
}

std::vector<Change<CUgraphEdgeData>> edge_changes() {
  using T = CUgraphEdgeData;
  return {CHANGE(T, from_port, 1),
          CHANGE(T, from_port, 2),
          CHANGE(T, from_port, 3),
          CHANGE(T, to_port, 1),
          CHANGE(T, type, 1),
          CHANGE(T, type, 2),
          CHANGE(T, reserved[0], 1),
          CHANGE(T, reserved[4], 1),
          Change<T>{"programmatic",
                    [](Stage&, T& t) {
                      t.from_port = 1;
                      t.type = 1;
                    }},
          Change<T>{"launch_order", [](Stage&, T& t) {
                      t.from_port = 2;
                      t.type = 1;
                    }}};
}

} // namespace

void fill_copy(Stage& s, CUDA_MEMCPY3D& copy) { fill_copy_3d(s, copy); }
void fill_values(Stage& s, CUstreamBatchMemOpParams& operation) {
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = s.memory();
  operation.writeValue.value64 = 0x100000001; // as memory has it, so that a wait ends
}

Choices structure_choices(const std::string&, const std::string& type, const std::string& name) {
  const std::string plain = type.compare(0, 6, "const ") == 0 ? type.substr(6) : type;
  if (plain == "CUDA_MEMCPY2D*")
    return structure<CUDA_MEMCPY2D>([](Stage& s, CUDA_MEMCPY2D& c) { fill_copy(s, c); },
                                    copy_changes<CUDA_MEMCPY2D>());
  if (type == "const CUDA_MEMCPY3D*")
    return structure<CUDA_MEMCPY3D>([](Stage& s, CUDA_MEMCPY3D& c) { fill_copy(s, c); },
                                    plain_deep_changes());
  if (plain == "CUDA_MEMCPY3D_PEER*")
    return structure<CUDA_MEMCPY3D_PEER>([](Stage& s, CUDA_MEMCPY3D_PEER& c) { fill_copy(s, c); },
                                         peer_changes());
  if (type == "const CUDA_MEMSET_NODE_PARAMS*")
    return structure<CUDA_MEMSET_NODE_PARAMS>(fill_memset, memset_changes());
  if (type == "const CUDA_KERNEL_NODE_PARAMS*")
    return structure<CUDA_KERNEL_NODE_PARAMS>(fill_kernel, kernel_changes());
  if (type == "const CUDA_HOST_NODE_PARAMS*")
    return structure<CUDA_HOST_NODE_PARAMS>(fill_host, {CHANGE(CUDA_HOST_NODE_PARAMS, fn, nullptr),
                                                        CHANGE(CUDA_HOST_NODE_PARAMS, userData, s.room(8))});
  if (plain == "CUmemLocation*") return structure<CUmemLocation>(fill_location, location_changes());
  if (plain == "CUmemLocation") { // by value
    Choices all = structure<CUmemLocation>(fill_location, location_changes());
    all.erase(all.begin() + 1);
    return all;
  }
  if (plain == "CUmemPoolProps*") return structure<CUmemPoolProps>(fill_pool, pool_changes());
  if (plain == "CUmemAccessDesc*") return structure<CUmemAccessDesc>(fill_access, access_changes());
  if (plain == "CUlaunchConfig*") return structure<CUlaunchConfig>(fill_launch, launch_changes());
  if (plain == "CUstreamBatchMemOpParams*")
    return structure<CUstreamBatchMemOpParams>(fill_values, value_changes());
  if (plain == "CUDA_BATCH_MEM_OP_NODE_PARAMS*") {
    using T = CUDA_BATCH_MEM_OP_NODE_PARAMS;
    std::vector<Change<T>> changes{
        CHANGE(T, ctx, nullptr),      CHANGE(T, ctx, s.other()),      CHANGE(T, count, 0),
        CHANGE(T, count, 257),        CHANGE(T, paramArray, nullptr), CHANGE(T, flags, 1),
        CHANGE(T, flags, 0x80000000u)};
    for (const Change<CUstreamBatchMemOpParams>& change : value_changes())
      changes.push_back({change.first, [change](Stage& s, T& t) { change.second(s, *t.paramArray); }});
    return structure<T>(fill_batch, changes);
  }
  if (plain == "CUmemcpyAttributes*")
    return structure<CUmemcpyAttributes>(fill_attributes, attribute_changes());
  if (plain == "CUDA_MEMCPY3D_BATCH_OP*") return structure<CUDA_MEMCPY3D_BATCH_OP>(fill_boxes, box_changes());
  if (plain == "CUctxCreateParams*")
    return structure<CUctxCreateParams>([](Stage&, CUctxCreateParams&) {}, context_changes());
  if (plain == "CUexecAffinityParam*")
    return structure<CUexecAffinityParam>([](Stage&, CUexecAffinityParam&) {}, affinity_changes());
  if (plain == "CUDA_GRAPH_INSTANTIATE_PARAMS*")
    return structure<CUDA_GRAPH_INSTANTIATE_PARAMS>([](Stage&, CUDA_GRAPH_INSTANTIATE_PARAMS&) {},
                                                    instantiate_changes());
  if (type == "const CUdevResource*" || (type == "CUdevResource*" && name == "resources"))
    return structure<CUdevResource>(fill_resource, resource_changes());
  if (type == "const CUgraphEdgeData*" && name != "edges")
    return structure<CUgraphEdgeData>([](Stage&, CUgraphEdgeData&) {}, edge_changes());
  if (type == "const CUgraphEdgeData*") {
    Choices all = structure<CUgraphEdgeData>([](Stage&, CUgraphEdgeData&) {}, edge_changes());
    std::swap(all[0], all[1]); // no list is the usual argument
    return all;
  }
  if (plain == "CUgraphNodeParams*") return graph_node_choices();
  return {};
}

} // namespace neighbours
