// SPDX-License-Identifier: MIT
#include <cuevent/driver_event.hpp>

#include "core/driver_log.hpp"
#include "core/event_errors.hpp"
#include "core/event_family.hpp"
#include "core/failure.hpp"
#include "core/require_context.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

void DriverEvent::record_context(const Context& context) {
  const CUresult result = try_record_context(context);
  if (result != CUDA_SUCCESS) fail_context(result, "cuCtxRecordEvent", &context);
}

void DriverEvent::record_context(CUgreenCtx context) {
  const char* const call = "cuGreenCtxRecordEvent";
  const CUresult result = try_record_context(context);
  if (result == CUDA_ERROR_INVALID_HANDLE && event_ != nullptr)
    fail(ErrorCause::context_mismatch, call,
         "the event belongs to %s and cannot be recorded in a green context of another context: make it in "
         "that "
         "context",
         ContextName(context_).text);
  if (result != CUDA_SUCCESS) fail_context(result, call, nullptr);
}

CUresult DriverEvent::try_record_context(const Context& context) noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = check_driver(context_, context);
  if (result != CUDA_SUCCESS) return result;
  return table().cuCtxRecordEvent_v12050(context.native_handle(), event_);
}

CUresult DriverEvent::try_record_context(CUgreenCtx context) noexcept {
  return table().cuGreenCtxRecordEvent_v12040(context, event_);
}

void DriverEvent::wait_context(const Context& context) const {
  const CUresult result = try_wait_context(context);
  if (result == CUDA_SUCCESS) return;
  const bool refused = result == CUDA_ERROR_INVALID_HANDLE && has(flags_, EventFlags::interprocess) &&
                       context && context.driver() == context_.driver();
  if (refused) fail_interprocess("cuCtxWaitEvent", ContextName(context_), ContextName(context).text);
  fail_context(result, "cuCtxWaitEvent", &context);
}

void DriverEvent::wait_context(CUgreenCtx context) const {
  const CUresult result = try_wait_context(context);
  if (result == CUDA_SUCCESS) return;
  if (result == CUDA_ERROR_INVALID_HANDLE && has(flags_, EventFlags::interprocess))
    fail_interprocess("cuGreenCtxWaitEvent", ContextName(context_), "a green context of another context");
  fail_context(result, "cuGreenCtxWaitEvent", nullptr);
}

CUresult DriverEvent::try_wait_context(const Context& context) const noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = check_driver(context_, context);
  if (result != CUDA_SUCCESS) return result;
  if (has(flags_, EventFlags::interprocess) && context != context_) {
    result = check_family(context_, [&](DriverEvent& event) { return event.try_record_context(context); });
    if (result != CUDA_SUCCESS) return result;
  }
  return table().cuCtxWaitEvent_v12050(context.native_handle(), event_);
}

CUresult DriverEvent::try_wait_context(CUgreenCtx context) const noexcept {
  if (has(flags_, EventFlags::interprocess)) {
    const CUresult result =
        check_family(context_, [&](DriverEvent& event) { return event.try_record_context(context); });
    if (result != CUDA_SUCCESS) return result;
  }
  return table().cuGreenCtxWaitEvent_v12040(context, event_);
}

void DriverEvent::fail_context(CUresult result, const char* call, const Context* context) const {
  const KeepLog keep;
  if (event_ == nullptr) fail_empty(call);
  if (context != nullptr) require_same_driver(*context, context_, call);
  if (result == CUDA_ERROR_INVALID_HANDLE && context != nullptr && *context != context_)
    fail_refused(ErrorCause::context_mismatch, call,
                 "the event belongs to %s and cannot be recorded in %s: make it in that context",
                 ContextName(context_).text, ContextName(*context).text);
  if (result == CUDA_ERROR_INVALID_VALUE) fail_recorded_in_capture(call, "the event");
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    context_.driver().fail(
        result, call,
        "a stream of the context is being captured, and this has invalidated the capture: use "
        "record() and wait() on the streams that matter");
  context_.driver().fail(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
