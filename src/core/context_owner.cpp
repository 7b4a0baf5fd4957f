// SPDX-License-Identifier: MIT
#include "core/context_owner.hpp"

#include <memory>
#include <new>

namespace cuevent { inline namespace CUEVENT_ABI {

Context Context::primary(int device, const Driver& driver) {
  Context context;
  const CUresult result = try_primary(context, device, driver);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuDevicePrimaryCtxRetain");
  return context;
}

Context Context::create(int device, const Driver& driver) {
  Context context;
  const CUresult result = try_create(context, device, driver);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuCtxCreate");
  return context;
}

Context Context::current(const Driver& driver) {
  Context context;
  const CUresult result = try_current(context, driver);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuCtxGetCurrent");
  return context;
}

CUresult Context::try_own(Context& out, int device, const Driver& driver, Kind kind) noexcept {
  const DriverTable& table = driver.table();
  CUdevice handle = 0;
  CUresult result = table.cuDeviceGet_v2000(&handle, device);
  if (result != CUDA_SUCCESS) return result;
  std::unique_ptr<Owner> owner(new (std::nothrow) Owner(kind, handle));
  if (owner == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;

  CUcontext context = nullptr;
  result = kind == Kind::primary ? table.cuDevicePrimaryCtxRetain_v7000(&context, handle)
                                 : table.cuCtxCreate_v3020(&context, 0, handle);
  if (result != CUDA_SUCCESS) return result;
  result = table.cuCtxGetId_v12000(context, &owner->id);
  if (kind == Kind::created) { // creation pushes the context, and the caller did not request that
    CUcontext popped = nullptr;
    const CUresult pop = table.cuCtxPopCurrent_v4000(&popped);
    if (result == CUDA_SUCCESS) result = pop;
  }
  if (result == CUDA_SUCCESS)
    out = Context(driver, context, reinterpret_cast<std::intptr_t>(static_cast<Shared*>(owner.release())));
  else
    owner->end(table, context);
  return result;
}

CUresult Context::try_primary(Context& out, int device, const Driver& driver) noexcept {
  return try_own(out, device, driver, Kind::primary);
}

CUresult Context::try_create(Context& out, int device, const Driver& driver) noexcept {
  return try_own(out, device, driver, Kind::created);
}

CUresult Context::try_current(Context& out, const Driver& driver) noexcept {
  CUcontext context = nullptr;
  const CUresult result = driver.table().cuCtxGetCurrent_v4000(&context);
  if (result != CUDA_SUCCESS) return result;
  return try_borrow(out, context, driver);
}

int Context::device() const {
  CUdevice device = 0;
  const ContextGuard guard(*this);
  const CUresult result = driver_.table().cuCtxGetDevice_v2000(&device);
  if (result != CUDA_SUCCESS) driver_.fail(result, "cuCtxGetDevice");
  return device;
}

}} // namespace cuevent::CUEVENT_ABI
