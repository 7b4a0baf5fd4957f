// SPDX-License-Identifier: MIT
// Managed memory, which is plain memory here, and advice about memory, which moves nothing.

#include "api.hpp"
#include "memory_places.hpp"

namespace cuevent::sim {

CUresult Api::cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  refuse_if(out == nullptr || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST),
            CUDA_ERROR_INVALID_VALUE);
  std::uintptr_t address = 0;
  allocate(&address, bytes, false, flags);
  process_.allocations.at(address).managed = true;
  *out = address;
  return CUDA_SUCCESS;
}

namespace {

CUmemLocation place_of(CUdevice device) {
  return device == CU_DEVICE_CPU ? CUmemLocation{place::host, 0}
                                 : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device};
}

/// For other advice, a device does not look at the place.
bool has_place(CUmem_advise advice) {
  return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
         advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

} // namespace

/// The checks of advice and of prefetching. A device refuses null first, then the place, then memory that is
/// not managed. `place` is null if the device does not look at one.
void Api::check_managed(CUdeviceptr pointer, std::size_t bytes, const CUmemLocation* place) {
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(pointer));
  refuse_if(pointer == 0 || bytes == 0, CUDA_ERROR_INVALID_VALUE);
  if (place != nullptr) check_place(*place);
  refuse_if(of == nullptr || !of->managed || pointer - of->address + bytes > of->bytes,
            CUDA_ERROR_INVALID_VALUE);
}

void Api::check_place(const CUmemLocation& where) {
  refuse_if(where.type != CU_MEM_LOCATION_TYPE_DEVICE && where.type != place::host, CUDA_ERROR_INVALID_VALUE);
  if (where.type == CU_MEM_LOCATION_TYPE_DEVICE) device(where.id);
}

#if CUDA_VERSION >= 12020
CUresult Api::cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation place) {
  // The older call says INVALID_DEVICE.
  if (has_place(advice) && place.type == CU_MEM_LOCATION_TYPE_DEVICE && !thread().contexts.empty())
    refuse_if(place.id < 0 || place.id >= computer_.options.devices, CUDA_ERROR_INVALID_VALUE);
  return advise(pointer, bytes, advice, place);
}

CUresult Api::cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation place, unsigned flags,
                                    CUstream where) {
  refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE);
  return prefetch(pointer, bytes, place, where);
}
#endif

CUresult Api::advise(CUdeviceptr pointer, std::size_t bytes, CUmem_advise advice,
                     const CUmemLocation& where) {
  current_context();
  unsafe_call();
  refuse_if(advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY,
            CUDA_ERROR_INVALID_VALUE);
  check_managed(pointer, bytes, has_place(advice) ? &where : nullptr);
  if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
    std::prev(process_.allocations.upper_bound(static_cast<std::uintptr_t>(pointer)))->second.prefers_host =
        advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION && where.type == place::host;
  return CUDA_SUCCESS;
}

CUresult Api::cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice where) {
  return advise(pointer, bytes, advice, place_of(where));
}

CUresult Api::prefetch(CUdeviceptr pointer, std::size_t bytes, const CUmemLocation& place, CUstream handle) {
  auto where = stream(handle);
  refuse_in_capture(*where);
  implicit_check(*where);
  check_managed(pointer, bytes, &place);
  Work work;
  work.text = "prefetch " + std::to_string(bytes) + " bytes";
  submit(where, std::move(work));
  return CUDA_SUCCESS;
}

/// Puts no work on the stream.
CUresult Api::cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t bytes, unsigned flags) {
  auto where = stream(handle);
  refuse_in_capture(*where);
  unsafe_call();
  implicit_check(*where);
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(pointer));
  if (flags == 0) crash("cuStreamAttachMemAsync without flags");
  refuse_if(flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(of == nullptr || !of->managed || of->address != pointer, CUDA_ERROR_INVALID_VALUE);
  refuse_if(flags == CU_MEM_ATTACH_SINGLE && where == where->home.context->legacy, CUDA_ERROR_INVALID_VALUE);
  refuse_if(bytes != 0 && bytes != of->bytes, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice to, CUstream where) {
  return prefetch(pointer, bytes, place_of(to), where);
}

} // namespace cuevent::sim
