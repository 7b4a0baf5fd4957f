// SPDX-License-Identifier: MIT
#include <cuevent/context.hpp>
#include <cuevent/error.hpp>

#include "core/push_context.hpp"
#include "core/require_context.hpp"
#include "core/this_thread.hpp"

#include <memory>
#include <new>

namespace cuevent { inline namespace CUEVENT_ABI {

struct Context::Owner : Shared {
  Owner(Kind its_kind, CUdevice its_device) noexcept : kind(its_kind), device(its_device) {}
  Kind kind;
  CUdevice device;

  void end(const DriverTable& table, CUcontext context) const noexcept;
};

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

Context Context::borrow(CUcontext context, const Driver& driver) {
  if (context == nullptr)
    throw InvalidContext("Context::borrow", "the CUcontext to borrow is null: pass a live context");
  unsigned long long id = 0;
  const CUresult result = driver.table().cuCtxGetId_v12000(context, &id);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuCtxGetId");
  return Context(driver, context, -static_cast<std::int64_t>(id));
}

Context Context::current(const Driver& driver) {
  Context context;
  const CUresult result = try_current(context, driver);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuCtxGetCurrent");
  return context;
}

/// Ends an owner. Failures go to the error hook.
void Context::Owner::end(const DriverTable& table, CUcontext context) const noexcept {
  const bool primary = kind == Kind::primary;
  const CUresult result =
      primary ? table.cuDevicePrimaryCtxRelease_v11000(device) : table.cuCtxDestroy_v4000(context);
  if (result != CUDA_SUCCESS) report_error(result, primary ? "cuDevicePrimaryCtxRelease" : "cuCtxDestroy");
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

CUresult Context::try_borrow(Context& out, CUcontext context, const Driver& driver) noexcept {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  unsigned long long id = 0;
  const CUresult result = driver.table().cuCtxGetId_v12000(context, &id);
  if (result != CUDA_SUCCESS) return result;
  out = Context(driver, context, -static_cast<std::int64_t>(id));
  return CUDA_SUCCESS;
}

int Context::device() const {
  CUdevice device = 0;
  const ContextGuard guard(*this);
  const CUresult result = driver_.table().cuCtxGetDevice_v2000(&device);
  if (result != CUDA_SUCCESS) driver_.fail(result, "cuCtxGetDevice");
  return device;
}

void Context::end() noexcept {
  const auto* const owner = static_cast<const Owner*>(shared());
  // The driver may crash if the program has already destroyed the context directly.
  const CUresult lost = owner->kind == Kind::created ? status() : CUDA_SUCCESS;
  if (lost == CUDA_SUCCESS)
    owner->end(driver_.table(), context_);
  else
    report_error(lost, "cuCtxDestroy");
  delete owner;
}

CUresult ContextGuard::push(const Context& context, CUresult asked) noexcept {
  const CUresult result = push_context(context, asked);
  if (result != CUDA_SUCCESS) return result;
  pushed_ = context.native_handle();
  thread_ = this_thread();
  return CUDA_SUCCESS;
}

void ContextGuard::fail(const Context& context, CUresult result) {
  require_context(context, "cuCtxPushCurrent");
  context.driver().fail(result, "cuCtxPushCurrent");
}

void ContextGuard::pop() noexcept {
  if (thread_ != this_thread())
    return report_error(CUDA_ERROR_INVALID_CONTEXT, "ContextGuard on another thread");
  const DriverTable& table = driver_.table();
  CUcontext popped = nullptr;
  const CUresult result = table.cuCtxPopCurrent_v4000(&popped);
  if (result != CUDA_SUCCESS) return report_error(result, "cuCtxPopCurrent");
  if (popped == pushed_) return;
  table.cuCtxPushCurrent_v4000(popped); // the scope made another context current: keep it
  report_error(CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent");
}

}} // namespace cuevent::CUEVENT_ABI
