// SPDX-License-Identifier: MIT
#include <cuevent/driver_event.hpp>
#include <cuevent/error.hpp>

#include "core/capture_state.hpp"
#include "core/event_errors.hpp"
#include "core/learned_wait.hpp"
#include "core/on_stream.hpp"
#include "core/push_context.hpp"
#include "core/relaxed_mode.hpp"
#include "core/require_context.hpp"
#include "core/retired_events.hpp"
#include "core/stream_context.hpp"

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

/// If the context is gone, the driver would look for its events in freed memory. The handle is a
/// reference, so that it needs no register during the first call.
[[gnu::always_inline]] inline CUresult destroy_in(const Context& context, const CUevent& event) noexcept {
  const CUresult lost = context.status();
  return lost != CUDA_SUCCESS ? lost : context.driver().table().cuEventDestroy_v4000(event);
}

/// Checks that `record` can record an event of `context`. Returns CUDA_ERROR_INVALID_HANDLE if it
/// cannot. An interprocess event can be waited for in the same places:
/// - in its own context
/// - on the same device, from a primary to a green context and back
/// No other query identifies a green context. Its handle and its id differ from those of its
/// primary context.
template <class Record>
CUresult check_family(const Context& context, const Record& record) noexcept {
  DriverEvent event;
  const CUresult result = DriverEvent::try_create(event, context);
  return result == CUDA_SUCCESS ? record(event) : result;
}

void check_handle(CUevent event, const char* call) {
  if (event == nullptr) throw InvalidHandle(call, "the CUevent is null: pass a live handle");
}

} // namespace

CUresult DriverEvent::create_slow(CUresult asked) noexcept {
  // Does the work of a ContextGuard, without the checks that a scope with other code needs.
  const DriverTable& driver = table();
  CUresult result = push_context(context_, asked);
  if (result != CUDA_SUCCESS) return result;
  result = driver.cuEventCreate_v2000(&event_, driver_flags(flags_));
  CUcontext popped = nullptr;
  if (const CUresult pop = driver.cuCtxPopCurrent_v4000(&popped); pop != CUDA_SUCCESS) [[unlikely]]
    report_error(pop, "cuCtxPopCurrent");
  return result;
}

CUresult DriverEvent::try_create(DriverEvent& out, const Context& context, EventFlags flags) noexcept {
  DriverEvent event(context, nullptr, flags, Ownership::borrowed);
  const CUresult result = event.create(flags);
  if (result != CUDA_SUCCESS) return result;
  event.ownership_ = Ownership::owned;
  out = std::move(event);
  return result;
}

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

CUresult DriverEvent::record_in_context(StreamRef stream, RecordFlags flags) noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = check_context(context_, stream.context_or(context_));
  if (result != CUDA_SUCCESS) return result;
  return on_stream(context_, stream.native_handle(),
                   [&] { return call_record(stream.native_handle(), flags); });
}

CUresult DriverEvent::wait_in_context(StreamRef stream, WaitFlags flags) const noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Context& context = stream.context_or(context_);
  const CUresult result = check_driver(context_, context);
  if (result != CUDA_SUCCESS) return result;
  return on_stream(context, stream.native_handle(), [&] { return call_wait(stream.native_handle(), flags); });
}

CUresult DriverEvent::wait_interprocess(CUstream stream, WaitFlags flags) const noexcept {
  const auto wait = [&] { return table().cuStreamWaitEvent_v3020(stream, event_, unsigned(flags)); };
  // With a flag, the driver refuses the call or adds a node. During capture, the driver refuses
  // the event. The driver checks the contexts later, and crashes if they are not in one family.
  if (flags != WaitFlags::none) return wait();
  const CaptureState capture = capture_state(table(), stream);
  if (capture.result != CUDA_SUCCESS) return capture.result;
  if (capture.capturing()) return wait();
  CUresult result = context_.status();
  if (result != CUDA_SUCCESS) return result;
  CUcontext context = nullptr;
  result = table().cuStreamGetCtx_v9020(stream, &context);
  if (result == CUDA_SUCCESS && context != context_.native_handle())
    result = check_family(context_, [&](DriverEvent& event) { return event.call_record(stream, {}); });
  return result == CUDA_SUCCESS ? wait() : result;
}

CUresult DriverEvent::record_as_captured(CUstream stream) noexcept {
  const CaptureState capture = capture_state(table(), stream);
  if (capture.result != CUDA_SUCCESS) return capture.result;
  return call_record(stream, capture.capturing() ? RecordFlags::external : RecordFlags::none);
}

CUresult DriverEvent::wait_as_captured(CUstream stream) const noexcept {
  const CaptureState capture = capture_state(table(), stream);
  if (capture.result != CUDA_SUCCESS) return capture.result;
  return call_wait(stream, capture.capturing() ? WaitFlags::external : WaitFlags::none);
}

void DriverEvent::record_context(const Context& context) {
  const CUresult result = try_record_context(context);
  if (result != CUDA_SUCCESS) fail_context(result, "cuCtxRecordEvent", &context);
}

void DriverEvent::record_context(CUgreenCtx context) {
  const char* const call = "cuGreenCtxRecordEvent";
  const CUresult result = try_record_context(context);
  if (result == CUDA_ERROR_INVALID_HANDLE && event_ != nullptr)
    throw ContextMismatch(
        call, ("the event belongs to " + name_of(context_) +
               " and cannot be recorded in a green context of another context: make it in that context")
                  .c_str());
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
  if (refused) fail_interprocess("cuCtxWaitEvent", name_of(context_), name_of(context));
  fail_context(result, "cuCtxWaitEvent", &context);
}

void DriverEvent::wait_context(CUgreenCtx context) const {
  const CUresult result = try_wait_context(context);
  if (result == CUDA_SUCCESS) return;
  if (result == CUDA_ERROR_INVALID_HANDLE && has(flags_, EventFlags::interprocess))
    fail_interprocess("cuGreenCtxWaitEvent", name_of(context_), "a green context of another context");
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

bool DriverEvent::query_relaxed() const {
  const CUresult result = try_query_relaxed();
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult DriverEvent::try_query_relaxed() const noexcept {
  RelaxedMode relaxed(table());
  const CUresult entered = relaxed.enter();
  return entered == CUDA_SUCCESS ? try_query() : entered;
}

bool DriverEvent::synchronize_for(TimeLimit timeout) const { return synchronize_until(Deadline(timeout)); }

bool DriverEvent::synchronize_until(Deadline deadline) const {
  const CUresult result = try_synchronize_until(deadline);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult DriverEvent::try_synchronize_for(TimeLimit timeout) const noexcept {
  return try_synchronize_until(Deadline(timeout));
}

CUresult DriverEvent::try_synchronize_until(Deadline deadline) const noexcept {
  const long long start = table().clock_now();
  const long long end = deadline.at(std::chrono::nanoseconds(start)).count();
  CUresult result = try_query_relaxed();
  if (result != CUDA_ERROR_NOT_READY) return result;
  LearnedWait wait(table(), event_, start);
  for (long long now = table().clock_now(); now < end; now = table().clock_now()) {
    wait.pass(now, end - now);
    result = try_query_relaxed();
    if (result == CUDA_SUCCESS) wait.ended(table().clock_now());
    if (result != CUDA_ERROR_NOT_READY) return result;
  }
  return result;
}

void DriverEvent::close() {
  if (event_ == nullptr) fail_empty("cuEventDestroy");
  const Driver driver = context_.driver();
  const CUresult result = try_close();
  if (result != CUDA_SUCCESS) driver.fail(result, "cuEventDestroy");
}

CUresult DriverEvent::try_close() noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Context context = context_; // keeps the context until the event is destroyed
  const bool owned = ownership_ == Ownership::owned;
  CUevent const event = release();
  return owned ? destroy_in(context, event) : CUDA_SUCCESS;
}

void DriverEvent::destroy() noexcept {
  if (has(flags_, EventFlags::retire) || retire_scopes != 0) [[unlikely]]
    return retire(std::move(*this));
  report_end(destroy_in(context_, event_), "cuEventDestroy");
}

CUevent DriverEvent::release() noexcept {
  CUevent const event = event_;
  ownership_ = Ownership::borrowed; // the swapped-out object must destroy nothing
  DriverEvent empty;
  swap(empty);
  return event;
}

void DriverEvent::swap(DriverEvent& other) noexcept {
  context_.swap(other.context_);
  std::swap(event_, other.event_);
  std::swap(flags_, other.flags_);
  std::swap(ownership_, other.ownership_);
  const auto moved = static_cast<short>((checks_ ^ other.checks_) & interprocess);
  checks_ = static_cast<short>(checks_ ^ moved);
  other.checks_ = static_cast<short>(other.checks_ ^ moved);
}

}} // namespace cuevent::CUEVENT_ABI
