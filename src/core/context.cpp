// SPDX-License-Identifier: MIT
#include <cuevent/context.hpp>
#include <cuevent/error.hpp>

#include "core/context_owner.hpp"
#include "core/failure.hpp"
#include "core/push_context.hpp"
#include "core/require_context.hpp"
#include "core/this_thread.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

Context Context::borrow(CUcontext context, const Driver& driver) {
  if (context == nullptr)
    fail(CUDA_ERROR_INVALID_CONTEXT, "Context::borrow",
         "the CUcontext to borrow is null: pass a live context");
  unsigned long long id = 0;
  const CUresult result = driver.table().cuCtxGetId_v12000(context, &id);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuCtxGetId");
  return Context(driver, context, -static_cast<std::int64_t>(id));
}

/// Ends an owner. Failures go to the error hook.
void Context::Owner::end(const DriverTable& table, CUcontext context) const noexcept {
  const bool primary = kind == Kind::primary;
  const CUresult result =
      primary ? table.cuDevicePrimaryCtxRelease_v11000(device) : table.cuCtxDestroy_v4000(context);
  if (result != CUDA_SUCCESS) report_error(result, primary ? "cuDevicePrimaryCtxRelease" : "cuCtxDestroy");
}

CUresult Context::try_borrow(Context& out, CUcontext context, const Driver& driver) noexcept {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  unsigned long long id = 0;
  const CUresult result = driver.table().cuCtxGetId_v12000(context, &id);
  if (result != CUDA_SUCCESS) return result;
  out = Context(driver, context, -static_cast<std::int64_t>(id));
  return CUDA_SUCCESS;
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
