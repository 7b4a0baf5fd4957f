// SPDX-License-Identifier: MIT
#pragma once

#include "cuevent/sim.hpp"

#include <cudaTypedefs.h>

#include <stdexcept>
#include <string>

/// The functions of a driver, each in the version that its type names.
class RawDriver {
  cuevent::sim::GetProcAddress source_; // first, because it finds the functions

public:
  explicit RawDriver(cuevent::sim::GetProcAddress source = cuevent::sim::get_proc_address)
      : source_(source) {}

  // clang-format off
#define FUNCTION(member, name, version) \
  PFN_##name##_v##version member = find<PFN_##name##_v##version>(#name, version);
  FUNCTION(init, cuInit, 2000)
  FUNCTION(get_error_name, cuGetErrorName, 6000)
  FUNCTION(device_get_count, cuDeviceGetCount, 2000)
  FUNCTION(device_get_attribute, cuDeviceGetAttribute, 2000)
  FUNCTION(primary_retain, cuDevicePrimaryCtxRetain, 7000)
  FUNCTION(primary_release, cuDevicePrimaryCtxRelease, 11000)
  FUNCTION(primary_reset, cuDevicePrimaryCtxReset, 11000)
  FUNCTION(primary_state, cuDevicePrimaryCtxGetState, 7000)
  FUNCTION(context_create, cuCtxCreate, 3020)
  FUNCTION(context_destroy, cuCtxDestroy, 4000)
  FUNCTION(context_push, cuCtxPushCurrent, 4000)
  FUNCTION(context_pop, cuCtxPopCurrent, 4000)
  FUNCTION(context_get, cuCtxGetCurrent, 4000)
  FUNCTION(context_synchronize, cuCtxSynchronize, 2000)
  FUNCTION(stream_create, cuStreamCreate, 2000)
  FUNCTION(stream_destroy, cuStreamDestroy, 4000)
  FUNCTION(stream_query, cuStreamQuery, 2000)
  FUNCTION(stream_synchronize, cuStreamSynchronize, 2000)
  FUNCTION(stream_wait, cuStreamWaitEvent, 3020)
  FUNCTION(host_function, cuLaunchHostFunc, 10000)
  FUNCTION(write_value_32, cuStreamWriteValue32, 11070)
  FUNCTION(wait_value_32, cuStreamWaitValue32, 11070)
  FUNCTION(memory_operations, cuStreamBatchMemOp, 11070)
  FUNCTION(add_memory_operations, cuGraphAddBatchMemOpNode, 11070)
  FUNCTION(write_value_64, cuStreamWriteValue64, 11070)
  FUNCTION(begin_capture, cuStreamBeginCapture, 10010)
  FUNCTION(end_capture, cuStreamEndCapture, 10000)
  FUNCTION(is_capturing, cuStreamIsCapturing, 10000)
  FUNCTION(exchange_mode, cuThreadExchangeStreamCaptureMode, 10010)
  FUNCTION(event_create, cuEventCreate, 2000)
  FUNCTION(event_destroy, cuEventDestroy, 4000)
  FUNCTION(event_query, cuEventQuery, 2000)
  FUNCTION(event_synchronize, cuEventSynchronize, 2000)
  FUNCTION(event_elapsed, cuEventElapsedTime, 2000)
  FUNCTION(event_record, cuEventRecord, 2000)
  FUNCTION(event_record_with_flags, cuEventRecordWithFlags, 11010)
  FUNCTION(ipc_export, cuIpcGetEventHandle, 4010)
  FUNCTION(ipc_open, cuIpcOpenEventHandle, 4010)
  FUNCTION(ipc_export_memory, cuIpcGetMemHandle, 4010)
  FUNCTION(ipc_open_memory, cuIpcOpenMemHandle, 11000)
  FUNCTION(ipc_close_memory, cuIpcCloseMemHandle, 4010)
  FUNCTION(allocate, cuMemAlloc, 3020)
  FUNCTION(free, cuMemFree, 3020)
  FUNCTION(address_reserve, cuMemAddressReserve, 10020)
  FUNCTION(address_free, cuMemAddressFree, 10020)
  FUNCTION(memory_create, cuMemCreate, 10020)
  FUNCTION(memory_release, cuMemRelease, 10020)
  FUNCTION(memory_map, cuMemMap, 10020)
  FUNCTION(memory_unmap, cuMemUnmap, 10020)
  FUNCTION(memory_set_access, cuMemSetAccess, 10020)
  FUNCTION(memory_export, cuMemExportToShareableHandle, 10020)
  FUNCTION(memory_import, cuMemImportFromShareableHandle, 10020)
  FUNCTION(host_allocate, cuMemHostAlloc, 2020)
  FUNCTION(host_register, cuMemHostRegister, 6050)
  FUNCTION(host_unregister, cuMemHostUnregister, 4000)
  FUNCTION(allocate_managed, cuMemAllocManaged, 6000)
  FUNCTION(allocate_on, cuMemAllocAsync, 11020)
  FUNCTION(free_on, cuMemFreeAsync, 11020)
  FUNCTION(copy, cuMemcpy, 4000)
  FUNCTION(upload, cuMemcpyHtoD, 3020)
  FUNCTION(copy_in_device, cuMemcpyDtoDAsync, 3020)
  FUNCTION(copy_to_device, cuMemcpyHtoDAsync, 3020)
  FUNCTION(copy_to_host, cuMemcpyDtoHAsync, 3020)
  FUNCTION(array_create, cuArrayCreate, 3020)
  FUNCTION(array_create_3d, cuArray3DCreate, 3020)
  FUNCTION(array_descriptor, cuArrayGetDescriptor, 3020)
  FUNCTION(array_descriptor_3d, cuArray3DGetDescriptor, 3020)
  FUNCTION(array_destroy, cuArrayDestroy, 2000)
  FUNCTION(array_requirements, cuArrayGetMemoryRequirements, 11060)
  FUNCTION(array_sparse_properties, cuArrayGetSparseProperties, 11010)
  FUNCTION(array_plane, cuArrayGetPlane, 11020)
  FUNCTION(copy_host_to_array, cuMemcpyHtoA, 3020)
  FUNCTION(copy_array_to_host, cuMemcpyAtoH, 3020)
  FUNCTION(copy_host_to_array_async, cuMemcpyHtoAAsync, 3020)
  FUNCTION(copy_array_to_host_async, cuMemcpyAtoHAsync, 3020)
  FUNCTION(copy_device_to_array, cuMemcpyDtoA, 3020)
  FUNCTION(copy_array_to_device, cuMemcpyAtoD, 3020)
  FUNCTION(copy_array_to_array, cuMemcpyAtoA, 3020)
  FUNCTION(copy_rows, cuMemcpy2D, 3020)
  FUNCTION(copy_rows_async, cuMemcpy2DAsync, 3020)
  FUNCTION(copy_box, cuMemcpy3D, 3020)
  FUNCTION(copy_box_async, cuMemcpy3DAsync, 3020)
  FUNCTION(copy_box_peer, cuMemcpy3DPeer, 4000)
  FUNCTION(memory_info, cuMemGetInfo, 3020)
  FUNCTION(mipmapped_create, cuMipmappedArrayCreate, 5000)
  FUNCTION(mipmapped_level, cuMipmappedArrayGetLevel, 5000)
  FUNCTION(mipmapped_destroy, cuMipmappedArrayDestroy, 5000)
  FUNCTION(texture_create, cuTexObjectCreate, 5000)
  FUNCTION(texture_destroy, cuTexObjectDestroy, 5000)
  FUNCTION(texture_resource, cuTexObjectGetResourceDesc, 5000)
  FUNCTION(texture_texture, cuTexObjectGetTextureDesc, 5000)
  FUNCTION(surface_create, cuSurfObjectCreate, 5000)
  FUNCTION(surface_destroy, cuSurfObjectDestroy, 5000)
  FUNCTION(surface_resource, cuSurfObjectGetResourceDesc, 5000)
  FUNCTION(fill_8, cuMemsetD8, 3020)
  FUNCTION(fill_32, cuMemsetD32Async, 3020)
  FUNCTION(module_load, cuModuleLoadData, 2000)
  FUNCTION(module_function, cuModuleGetFunction, 2000)
  FUNCTION(launch, cuLaunchKernel, 4000)
  FUNCTION(graph_create, cuGraphCreate, 10000)
  FUNCTION(graph_destroy, cuGraphDestroy, 10000)
  FUNCTION(graph_nodes, cuGraphGetNodes, 10000)
  FUNCTION(add_record_node, cuGraphAddEventRecordNode, 11010)
  FUNCTION(add_wait_node, cuGraphAddEventWaitNode, 11010)
  FUNCTION(add_copy_node, cuGraphAddMemcpyNode, 10000)
  FUNCTION(copy_node_parameters, cuGraphMemcpyNodeGetParams, 10000)
  FUNCTION(exec_set_copy, cuGraphExecMemcpyNodeSetParams, 10020)
  FUNCTION(add_child_node, cuGraphAddChildGraphNode, 10000)
  FUNCTION(instantiate, cuGraphInstantiateWithFlags, 11040)
  FUNCTION(graph_launch, cuGraphLaunch, 10000)
  FUNCTION(exec_destroy, cuGraphExecDestroy, 10000)
  FUNCTION(user_object_create, cuUserObjectCreate, 11030)
  FUNCTION(retain_user_object, cuGraphRetainUserObject, 11030)
#undef FUNCTION
  // clang-format on

  template <class Function>
  Function find(const char* name, int version) const {
    void* address = nullptr;
    if (source_(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) != CUDA_SUCCESS ||
        address == nullptr)
      throw std::runtime_error(std::string("the simulator has no ") + name);
    return reinterpret_cast<Function>(address);
  }
};
