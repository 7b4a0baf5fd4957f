// SPDX-License-Identifier: MIT
#include <cuevent/driver_event.hpp>

#include "core/event_errors.hpp"
#include "core/failure.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

void check_handle(CUevent event, const char* call) {
  if (event == nullptr) fail(CUDA_ERROR_INVALID_HANDLE, call, "the CUevent is null: pass a live handle");
}

} // namespace

DriverEvent DriverEvent::for_stream(CUstream stream, EventFlags flags, const Driver& driver) {
  if (is_default_stream(stream)) return DriverEvent(Context::current(driver), flags);
  CUcontext context = nullptr;
  const CUresult result = driver.table().cuStreamGetCtx_v9020(stream, &context);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuStreamGetCtx");
  return DriverEvent(Context::borrow(context, driver), flags);
}

DriverEvent DriverEvent::from_native_handle(const Context& context, CUevent event, EventFlags flags) {
  check_handle(event, "DriverEvent::from_native_handle");
  return DriverEvent(context, event, flags, Ownership::owned);
}

DriverEvent DriverEvent::borrow(const Context& context, CUevent event, EventFlags flags) {
  check_handle(event, "DriverEvent::borrow");
  return DriverEvent(context, event, flags, Ownership::borrowed);
}

void DriverEvent::close() {
  if (event_ == nullptr) fail_empty("cuEventDestroy");
  const Driver driver = context_.driver();
  const CUresult result = try_close();
  if (result != CUDA_SUCCESS) driver.fail(result, "cuEventDestroy");
}

}} // namespace cuevent::CUEVENT_ABI
