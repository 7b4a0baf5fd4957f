// Errors: every CUresult as a typed exception, and as a std::error_code for those who want no exceptions.
#pragma once

#include <cuda.h>

#include <stdexcept>
#include <system_error>

#pragma GCC visibility push(default)
namespace cuevent {

/// What a CUresult means for the caller. Each kind but success and other is also a base class of exceptions.
enum class ErrorKind {
  success,
  not_ready,          ///< the work has not completed; no error where the question was "ready?"
  usage,              ///< the call was wrong: mend the program
  unsupported,        ///< this driver or device cannot do it
  capture,            ///< a rule of stream capture was broken
  context_lost,       ///< the context, or the driver itself, is gone
  out_of_resources,   ///< memory or another resource ran out
  device_fault,       ///< work on the device failed: the process can do no more CUDA work
  driver_unavailable, ///< there is no usable driver or device
  other,              ///< none of these, or a code that this version does not know
};

/// The kind of `result`; `other` for a code that the table does not know.
/// Thread-safety: any thread.
ErrorKind kind_of(CUresult result) noexcept;

/// True if the context, or the process, is lost with this result, so that every later call would fail too.
/// Thread-safety: any thread.
bool is_sticky(CUresult result) noexcept;

/// The category of driver results. Its messages, such as "CUDA_ERROR_INVALID_HANDLE (400): ...", are kept
/// here: they need no driver, and name the number of a code that the table does not know.
/// Thread-safety: any thread.
const std::error_category& driver_category() noexcept;

/// `result` in driver_category().
/// Thread-safety: any thread.
std::error_code make_error_code(CUresult result) noexcept;

/// The base of all exceptions here. what() reads "cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): <text>;
/// <advice>".
/// Thread-safety: as std::exception; copying one cannot throw.
class DriverError : public std::system_error {
public:
  /// `call` is the driver function, a string that lives for ever; `advice` (what to do) replaces the table's
  /// if not null.
  DriverError(CUresult result, const char* call, const char* advice = nullptr);
  DriverError(const DriverError&) noexcept = default;
  DriverError& operator=(const DriverError&) noexcept = default;
  ~DriverError()
      override; // here and below in the library, so that the headers need neither exceptions nor RTTI

  CUresult result() const noexcept { return static_cast<CUresult>(code().value()); }
  const char* call() const noexcept { return call_; }
  const char* what() const noexcept override { return text_.what(); }

private:
  const char* call_;
  std::runtime_error text_; // a shared string, so that copies do not throw
};

/// \name One class a kind
/// @{
class UsageError : public DriverError {
public:
  using DriverError::DriverError;
  ~UsageError() override;
};
class Unsupported : public DriverError {
public:
  using DriverError::DriverError;
  ~Unsupported() override;
};
class CaptureError : public DriverError {
public:
  using DriverError::DriverError;
  ~CaptureError() override;
};
class ContextLost : public DriverError {
public:
  using DriverError::DriverError;
  ~ContextLost() override;
};
class OutOfResources : public DriverError {
public:
  using DriverError::DriverError;
  ~OutOfResources() override;
};
class DeviceFault : public DriverError {
public:
  using DriverError::DriverError;
  ~DeviceFault() override;
};
class DriverUnavailable : public DriverError {
public:
  using DriverError::DriverError;
  ~DriverUnavailable() override;
};
/// @}

/// The base class of the exceptions of a kind. not_ready has one code only, so NotReady is its row's class.
template <ErrorKind>
struct ErrorBase {
  using type = DriverError;
};
template <>
struct ErrorBase<ErrorKind::usage> {
  using type = UsageError;
};
template <>
struct ErrorBase<ErrorKind::unsupported> {
  using type = Unsupported;
};
template <>
struct ErrorBase<ErrorKind::capture> {
  using type = CaptureError;
};
template <>
struct ErrorBase<ErrorKind::context_lost> {
  using type = ContextLost;
};
template <>
struct ErrorBase<ErrorKind::out_of_resources> {
  using type = OutOfResources;
};
template <>
struct ErrorBase<ErrorKind::device_fault> {
  using type = DeviceFault;
};
template <>
struct ErrorBase<ErrorKind::driver_unavailable> {
  using type = DriverUnavailable;
};

/// \name One class a code: a row of errors.inc, such as InvalidHandle for CUDA_ERROR_INVALID_HANDLE
/// @{
#define CUEVENT_ERROR(code, name, Class, kind, text, advice)                                                 \
  class Class : public ErrorBase<ErrorKind::kind>::type {                                                    \
  public:                                                                                                    \
    explicit Class(const char* call, const char* advice_if_known = nullptr);                                 \
    ~Class() override;                                                                                       \
  };
#include <cuevent/errors.inc>
#undef CUEVENT_ERROR
/// @}

/// \name The cause, where the library can tell why the driver refused
/// @{

/// The event is empty: never created, moved from, closed or released. The driver was not called.
class EmptyEvent : public InvalidHandle {
public:
  using InvalidHandle::InvalidHandle;
  ~EmptyEvent() override;
};
/// The event was made without EventFlags::timing.
class TimingDisabled : public InvalidHandle {
public:
  using InvalidHandle::InvalidHandle;
  ~TimingDisabled() override;
};
/// The event was never recorded, so it has no time.
class NeverRecorded : public InvalidHandle {
public:
  using InvalidHandle::InvalidHandle;
  ~NeverRecorded() override;
};
/// The event and the stream, or the two events, are of different contexts.
class ContextMismatch : public InvalidHandle {
public:
  using InvalidHandle::InvalidHandle;
  ~ContextMismatch() override;
};
/// The event was last recorded inside a stream capture, so it stands for no work that could be waited for.
class RecordedInCapture : public InvalidValue {
public:
  using InvalidValue::InvalidValue;
  ~RecordedInCapture() override;
};
/// An external flag was given for a stream that is not being captured.
class ExternalOutsideCapture : public IllegalState {
public:
  using IllegalState::IllegalState;
  ~ExternalOutsideCapture() override;
};
/// @}

/// Throws the exception of `result`: its row's class, or a plain DriverError for a code that the table does
/// not know.
[[noreturn, gnu::cold]] void throw_error(CUresult result, const char* call, const char* advice = nullptr);

/// Receives what a destructor could not do. It may be called from any thread, and must not throw.
using ErrorHook = void (*)(CUresult result, const char* call) noexcept;

/// Installs `hook` and returns the one before; null brings back the default, which prints one line on
/// stderr and is silent for the results of teardown (deinitialised, context destroyed, not initialised as in
/// a forked child) and of a device fault, which every other call of the process reports.
/// Thread-safety: any thread.
ErrorHook set_error_hook(ErrorHook hook) noexcept;

/// Hands `result` to the hook. For destructors.
/// Thread-safety: any thread.
[[gnu::cold]] void report_error(CUresult result, const char* call) noexcept;

} // namespace cuevent
#pragma GCC visibility pop
