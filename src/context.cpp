#include <cuevent/context.hpp>

#include "this_thread.hpp"

#include <atomic>
#include <new>

namespace cuevent {

/// What the copies of an owning Context share.
struct Context::Owner {
  enum class Kind { primary, created };
  std::atomic<unsigned> references{1};
  Kind kind;
  CUdevice device;
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
  if (context == nullptr) throw InvalidContext("Context::borrow", "the CUcontext to borrow is null");
  return Context(driver, context);
}

Context Context::current(const Driver& driver) {
  Context context;
  const CUresult result = try_current(context, driver);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuCtxGetCurrent");
  return context;
}

CUresult Context::try_primary(Context& out, int device, const Driver& driver) noexcept {
  const DriverTable& table = driver.table();
  CUdevice handle = 0;
  CUresult result = table.cuDeviceGet_v2000(&handle, device);
  if (result != CUDA_SUCCESS) return result;
  auto* const owner = new (std::nothrow) Owner{.kind = Owner::Kind::primary, .device = handle};
  if (owner == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUcontext context = nullptr;
  result = table.cuDevicePrimaryCtxRetain_v7000(&context, handle);
  if (result == CUDA_SUCCESS)
    out = Context(driver, context, owner);
  else
    delete owner;
  return result;
}

CUresult Context::try_create(Context& out, int device, const Driver& driver) noexcept {
  const DriverTable& table = driver.table();
  CUdevice handle = 0;
  CUresult result = table.cuDeviceGet_v2000(&handle, device);
  if (result != CUDA_SUCCESS) return result;
  auto* const owner = new (std::nothrow) Owner{.kind = Owner::Kind::created, .device = handle};
  if (owner == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUcontext context = nullptr;
  result = table.cuCtxCreate_v3020(&context, 0, handle);
  if (result != CUDA_SUCCESS) {
    delete owner;
    return result;
  }
  const Context created(driver, context, owner);
  CUcontext popped = nullptr; // creation pushes, and the caller did not ask for that
  result = table.cuCtxPopCurrent_v4000(&popped);
  if (result == CUDA_SUCCESS) out = created;
  return result;
}

CUresult Context::try_current(Context& out, const Driver& driver) noexcept {
  CUcontext context = nullptr;
  const CUresult result = driver.table().cuCtxGetCurrent_v4000(&context);
  if (result != CUDA_SUCCESS) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  out = Context(driver, context);
  return CUDA_SUCCESS;
}

int Context::device() const {
  if (owner_ != nullptr) return owner_->device;
  CUdevice device = 0;
  const ContextGuard guard(*this);
  const CUresult result = driver_.table().cuCtxGetDevice_v2000(&device);
  if (result != CUDA_SUCCESS) driver_.fail(result, "cuCtxGetDevice");
  return device;
}

void Context::share() const noexcept { owner_->references.fetch_add(1, std::memory_order_relaxed); }

void Context::drop() noexcept {
  if (owner_->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const DriverTable& table = driver_.table();
  if (owner_->kind == Owner::Kind::primary) {
    const CUresult result = table.cuDevicePrimaryCtxRelease_v11000(owner_->device);
    if (result != CUDA_SUCCESS) report_error(result, "cuDevicePrimaryCtxRelease");
  } else {
    const CUresult result = table.cuCtxDestroy_v4000(context_);
    if (result != CUDA_SUCCESS) report_error(result, "cuCtxDestroy");
  }
  delete owner_;
}

CUresult ContextGuard::push(CUcontext context) noexcept {
  // The driver lets a destroyed context be pushed, and may crash on what comes next; asking for its id tells.
  const DriverTable& table = driver_.table();
  unsigned long long id = 0;
  CUresult result = table.cuCtxGetId_v12000(context, &id);
  if (result == CUDA_SUCCESS) result = table.cuCtxPushCurrent_v4000(context);
  if (result != CUDA_SUCCESS) return result;
  pushed_ = context;
  thread_ = this_thread();
  return CUDA_SUCCESS;
}

void ContextGuard::fail(const Context& context, CUresult result) {
  if (!context)
    throw InvalidContext("cuCtxPushCurrent", "the Context is empty: take one from Context::primary()");
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
  table.cuCtxPushCurrent_v4000(popped); // something else was made current in the scope: it stays
  report_error(CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent");
}

} // namespace cuevent
