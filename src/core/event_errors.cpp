// SPDX-License-Identifier: MIT
#include "core/event_errors.hpp"

#include "core/driver_log.hpp"
#include "core/require_context.hpp"
#include "core/stream_context.hpp"
#include "core/value_text.hpp"

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

[[noreturn]] void fail_recorded_in_capture(const char* call, const char* which) {
  throw RecordedInCapture(call, with_reasons(CUDA_ERROR_INVALID_VALUE, call,
                                             std::string(which) +
                                                 " was last recorded inside a stream capture, so it marks no "
                                                 "work: record it outside, or with RecordFlags::external")
                                    .c_str());
}

} // namespace

std::string name_of(const Driver& driver, CUcontext handle) {
  if (handle == nullptr) return "another context"; // of an event for which only the CUevent is known
  std::string name = "context " + hexadecimal(reinterpret_cast<std::uintptr_t>(handle));
  try {
    name += " (device " + std::to_string(Context::borrow(handle, driver).device()) + ")";
  } catch (const DriverError&) {
    name += " (lost)";
  }
  return name;
}

std::string name_of(const Context& context) { return name_of(context.driver(), context.native_handle()); }

void fail_empty(const char* call, const char* which) {
  throw EmptyEvent(call, (std::string(which) + " is empty, because it was default-constructed, moved from, "
                                               "closed or released: make or assign an event first")
                             .c_str());
}

void fail_lease(const char* call) {
  throw NotSupported(call,
                     "the event is on lease from a pool, and a graph or a launch attribute would outlive "
                     "the lease: use PooledEvent::detach() or a DriverEvent");
}

void fail_interprocess(const char* call, const std::string& own, const std::string& other) {
  throw ContextMismatch(
      call,
      ("the event was made with EventFlags::interprocess in " + own + ", and a wait for it in " + other +
       " would crash the process in the driver: let a stream of the event's context wait for "
       "it, record an event without the flag there, and wait for that event")
          .c_str());
}

void require_same_driver(const Context& given, const Context& own, const char* call) {
  require_context(given, call);
  if (given.driver() != own.driver())
    throw ContextMismatch(
        call,
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
    throw InvalidValue(call, with_reasons(result, call,
                                          contradiction ? "an interprocess event cannot have timing: remove "
                                                          "one of the two flags"
                                                        : "EventFlags has unknown bits: use the enumerators")
                                 .c_str());
  driver.fail(result, call);
}

void DriverEvent::fail_record(CUresult result, StreamRef stream, RecordFlags flags) const {
  const char* const call = flags == RecordFlags::none ? "cuEventRecord" : "cuEventRecordWithFlags";
  const KeepLog keep;
  if (event_ == nullptr) fail_empty(call);
  if (const Context* const context = stream.context()) {
    require_same_driver(*context, context_, call);
    if (context_ && *context != context_)
      throw ContextMismatch(call, ("the event belongs to " + name_of(context_) + " and the stream to " +
                                   name_of(*context) +
                                   ": record an event made in that context, and wait() across contexts")
                                      .c_str());
  }
  if (result == CUDA_ERROR_INVALID_HANDLE && !is_default_stream(stream.native_handle())) {
    CUcontext const other = context_of(table(), stream.native_handle());
    if (other != nullptr && other != context_.native_handle())
      throw ContextMismatch(
          call,
          with_reasons(result, call,
                       "the event belongs to " + name_of(context_) + " and the stream to " +
                           name_of(context_.driver(), other) +
                           ": record an event made with DriverEvent::for_stream, and wait() across contexts")
              .c_str());
  }
  if (result == CUDA_ERROR_ILLEGAL_STATE && flags == RecordFlags::external)
    throw ExternalOutsideCapture(
        call,
        with_reasons(result, call, "the stream is not being captured: remove RecordFlags::external").c_str());
  if (const char* const wrong = wrong_with(flags, "RecordFlags has unknown bits: use the enumerators");
      result == CUDA_ERROR_INVALID_VALUE && wrong != nullptr)
    throw InvalidValue(call, with_reasons(result, call, wrong).c_str());
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
      fail_interprocess(call, name_of(context_), name_of(context_.driver(), other));
  }
  if (result == CUDA_ERROR_ILLEGAL_STATE && flags == WaitFlags::external)
    throw ExternalOutsideCapture(
        call,
        with_reasons(result, call, "the stream is not being captured: remove WaitFlags::external").c_str());
  if (result == CUDA_ERROR_INVALID_VALUE) {
    if (const char* const wrong = wrong_with(flags, "WaitFlags has unknown bits: use the enumerators"))
      throw InvalidValue(call, with_reasons(result, call, wrong).c_str());
    fail_recorded_in_capture(call, "the event");
  }
  context_.driver().fail(result, call);
}

void DriverEvent::fail_context(CUresult result, const char* call, const Context* context) const {
  const KeepLog keep;
  if (event_ == nullptr) fail_empty(call);
  if (context != nullptr) require_same_driver(*context, context_, call);
  if (result == CUDA_ERROR_INVALID_HANDLE && context != nullptr && *context != context_)
    throw ContextMismatch(call, with_reasons(result, call,
                                             "the event belongs to " + name_of(context_) +
                                                 " and cannot be recorded in " + name_of(*context) +
                                                 ": make it in that context")
                                    .c_str());
  if (result == CUDA_ERROR_INVALID_VALUE) fail_recorded_in_capture(call, "the event");
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    context_.driver().fail(
        result, call,
        "a stream of the context is being captured, and this has invalidated the capture: use "
        "record() and wait() on the streams that matter");
  context_.driver().fail(result, call);
}

void DriverEvent::fail_query(CUresult result, const char* call) const {
  if (event_ == nullptr) fail_empty(call);
  if (result == CUDA_ERROR_INVALID_VALUE) fail_recorded_in_capture(call, "the event");
  context_.driver().fail(result, call);
}

void DriverEvent::fail_elapsed(CUresult result, const DriverEvent& end) const {
  const char* const call = "cuEventElapsedTime";
  const KeepLog keep;
  const struct {
    const DriverEvent& event;
    const char* name;
  } both[] = {{*this, "the start event"}, {end, "the end event"}};

  for (const auto& [event, name] : both)
    if (!event) fail_empty(call, name);
  const bool known = context_ && end.context_; // not if only a CUevent is known
  if (result == CUDA_ERROR_INVALID_HANDLE) {
    for (const auto& [event, name] : both)
      if (event.context_ && !has(event.flags(), EventFlags::timing))
        throw TimingDisabled(
            call, (std::string(name) + " was made without timing: make it with EventFlags::timing").c_str());
    if (known && context_ != end.context_) {
      const bool one_driver = context_.driver() == end.context_.driver();
      throw ContextMismatch(call,
                            ("the start event belongs to " + name_of(context_) + " and the end event to " +
                             name_of(end.context_) + (one_driver ? "" : " of another driver") +
                             ": time between two events of one context")
                                .c_str());
    }
  }
  // The elapsed time from a recorded event to itself is 0. Asking about each event alone therefore
  // tells which event the driver refused.
  for (const auto& [event, name] : both) {
    float none = 0;
    const CUresult alone = event.table().cuEventElapsedTime_v12080(&none, event.event_, event.event_);
    if (result == CUDA_ERROR_INVALID_HANDLE && alone == result && !event.context_)
      throw InvalidHandle(call, (std::string(name) + " was never recorded, or was made without timing: call "
                                                     "record() first, and make it with timing")
                                    .c_str());
    if (result == CUDA_ERROR_INVALID_HANDLE && alone == result)
      throw NeverRecorded(call, (std::string(name) + " was never recorded: call record() first").c_str());
    if (result == CUDA_ERROR_INVALID_VALUE && alone == result) fail_recorded_in_capture(call, name);
  }
  if (result == CUDA_ERROR_INVALID_HANDLE && !known)
    throw ContextMismatch(call,
                          "the events belong to different contexts: time between two events of one context");
  context_.driver().fail(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
