// SPDX-License-Identifier: MIT
#include "core/event_errors.hpp"

#include "core/driver_log.hpp"
#include "core/failure.hpp"
#include "core/require_context.hpp"
#include "core/stream_context.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

/// Returns what is wrong with flags when the driver accepts at most one flag. Null if the flags
/// are valid.
template <class Flags>
const char* wrong_with(Flags flags, const char* unknown_bits) noexcept {
  if (flags == (Flags::external | Flags::external_in_capture))
    return "external and external_in_capture exclude each other: use one of them";
  const bool known = flags == Flags::none || flags == Flags::external || flags == Flags::external_in_capture;
  return known ? nullptr : unknown_bits;
}

} // namespace

ContextName::ContextName(const Driver& driver, CUcontext handle) noexcept {
  if (handle == nullptr) { // of an event for which only the CUevent is known
    std::strcpy(text, "another context");
    return;
  }
  int device = 0;
  Context context;
  CUresult result = Context::try_borrow(context, handle, driver);
  if (result == CUDA_SUCCESS) {
    const ContextGuard guard(context, result);
    if (result == CUDA_SUCCESS) result = driver.table().cuCtxGetDevice_v2000(&device);
  }
  const auto address = static_cast<std::uintmax_t>(reinterpret_cast<std::uintptr_t>(handle));
  if (result == CUDA_SUCCESS)
    std::snprintf(text, sizeof text, "context 0x%jx (device %d)", address, device);
  else
    std::snprintf(text, sizeof text, "context 0x%jx (lost)", address);
}

void fail_recorded_in_capture(const char* call, const char* which) {
  fail_refused(
      ErrorCause::recorded_in_capture, call,
      "%s was last recorded inside a stream capture, so it marks no work: record it outside, or with "
      "RecordFlags::external",
      which);
}

void fail_empty(const char* call, const char* which) {
  fail(ErrorCause::empty_event, call,
       "%s is empty, because it was default-constructed, moved from, closed or released: make or assign an "
       "event first",
       which);
}

void fail_lease(const char* call) {
  fail(CUDA_ERROR_NOT_SUPPORTED, call,
       "the event is on lease from a pool, and a graph or a launch attribute would outlive the lease: use "
       "PooledEvent::detach() or a DriverEvent");
}

void fail_interprocess(const char* call, const ContextName& own, const char* other) {
  fail(ErrorCause::context_mismatch, call,
       "the event was made with EventFlags::interprocess in %s, and a wait for it in %s would crash the "
       "process "
       "in the driver: let a stream of the event's context wait for it, record an event without the flag "
       "there, "
       "and wait for that event",
       own.text, other);
}

void require_same_driver(const Context& given, const Context& own, const char* call) {
  require_context(given, call);
  if (given.driver() != own.driver())
    fail(ErrorCause::context_mismatch, call,
         "the event and the context belong to different drivers: make the event with the context's driver");
}

void DriverEvent::fail_create(CUresult result, const Context& context, EventFlags flags) {
  require_context(context, "cuEventCreate");
  fail_create(result, context.driver(), flags);
}

void DriverEvent::fail_create(CUresult result, const Driver& driver, EventFlags flags) {
  const char* const call = "cuEventCreate";
  const bool contradiction = has(flags, EventFlags::timing) && has(flags, EventFlags::interprocess);
  if (result == CUDA_ERROR_INVALID_VALUE)
    throw_refused(result, call,
                  contradiction ? "an interprocess event cannot have timing: remove one of the two flags"
                                : "EventFlags has unknown bits: use the enumerators");
  driver.fail(result, call);
}

void DriverEvent::fail_record(CUresult result, StreamRef stream, RecordFlags flags) const {
  const char* const call = flags == RecordFlags::none ? "cuEventRecord" : "cuEventRecordWithFlags";
  const KeepLog keep;
  if (event_ == nullptr) fail_empty(call);
  if (const Context* const context = stream.context()) {
    require_same_driver(*context, context_, call);
    if (context_ && *context != context_)
      fail(ErrorCause::context_mismatch, call,
           "the event belongs to %s and the stream to %s: record an event made in that context, and wait() "
           "across contexts",
           ContextName(context_).text, ContextName(*context).text);
  }
  if (result == CUDA_ERROR_INVALID_HANDLE && !is_default_stream(stream.native_handle())) {
    CUcontext const other = context_of(table(), stream.native_handle());
    if (other != nullptr && other != context_.native_handle())
      fail_refused(ErrorCause::context_mismatch, call,
                   "the event belongs to %s and the stream to %s: record an event made with "
                   "DriverEvent::for_stream, and wait() across contexts",
                   ContextName(context_).text, ContextName(context_.driver(), other).text);
  }
  if (result == CUDA_ERROR_ILLEGAL_STATE && flags == RecordFlags::external)
    fail_refused(ErrorCause::external_outside_capture, call,
                 "the stream is not being captured: remove RecordFlags::external");
  if (const char* const wrong = wrong_with(flags, "RecordFlags has unknown bits: use the enumerators");
      result == CUDA_ERROR_INVALID_VALUE && wrong != nullptr)
    throw_refused(result, call, wrong);
  context_.driver().fail(result, call);
}

void DriverEvent::fail_wait(CUresult result, StreamRef stream, WaitFlags flags) const {
  const char* const call = "cuStreamWaitEvent";
  const KeepLog keep;
  if (event_ == nullptr) fail_empty(call);
  if (result == CUDA_ERROR_NOT_SUPPORTED && flags != WaitFlags::none && on_lease()) fail_lease(call);
  const Context& context = stream.context_or(context_);
  if (stream.context() != nullptr) require_same_driver(context, context_, call);
  if (result == CUDA_ERROR_INVALID_HANDLE && has(flags_, EventFlags::interprocess)) {
    CUstream const handle = stream.native_handle();
    CUcontext const other = is_default_stream(handle) ? context.native_handle() : context_of(table(), handle);
    if (other != nullptr && other != context_.native_handle())
      fail_interprocess(call, ContextName(context_), ContextName(context_.driver(), other).text);
  }
  if (result == CUDA_ERROR_ILLEGAL_STATE && flags == WaitFlags::external)
    fail_refused(ErrorCause::external_outside_capture, call,
                 "the stream is not being captured: remove WaitFlags::external");
  if (result == CUDA_ERROR_INVALID_VALUE) {
    if (const char* const wrong = wrong_with(flags, "WaitFlags has unknown bits: use the enumerators"))
      throw_refused(result, call, wrong);
    fail_recorded_in_capture(call, "the event");
  }
  context_.driver().fail(result, call);
}

void DriverEvent::fail_query(CUresult result, const char* call) const {
  if (event_ == nullptr) fail_empty(call);
  if (result == CUDA_ERROR_INVALID_VALUE) fail_recorded_in_capture(call, "the event");
  context_.driver().fail(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
