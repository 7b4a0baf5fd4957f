// SPDX-License-Identifier: MIT
#include "core/driver_loading.hpp"

#include "core/failure.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

CUresult Driver::look_up(void*& out, const char* name, int version) const noexcept {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (version > table_->version) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result =
      table_->get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  if (result != CUDA_SUCCESS) return result;
  if (address == nullptr) return CUDA_ERROR_NOT_FOUND;
  out = address;
  return result;
}

void* Driver::find_entry_point(const char* name, int version) const {
  const char* const call = "cuGetProcAddress";
  void* address = nullptr;
  const CUresult result = look_up(address, name, version);
  if (result == CUDA_SUCCESS) return address;
  if (!*this || result == CUDA_ERROR_NOT_INITIALIZED) fail(result, call);
  if (version > table_->version) fail_unsupported(*table_, call, name, version);
  CUdriverProcAddressQueryResult status{};
  table_->get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  if (status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
    fail_refused(result, call, "%s did not exist in CUDA %d.%d: request a version that has the signature",
                 name, major_of(version), minor_of(version));
  fail_refused(result, call, "the driver has no function %s: check the name", name);
}

}} // namespace cuevent::CUEVENT_ABI
