// SPDX-License-Identifier: MIT
// Errors: every CUresult as a typed exception or as a std::error_code, and a hook for those of destructors.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#include <stdexcept>
#include <string_view>
#include <system_error>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

static_assert(sizeof(CUresult) == sizeof(int), "-fshort-enums changes the driver's types: leave it out");
static_assert(alignof(std::error_code) == alignof(void*),
              "-fpack-struct changes cuevent's classes: leave it out");

/// What a CUresult means for the caller. Each kind except success, not_ready and other is also a
/// base class of exceptions.
enum class ErrorKind {
  success,
  not_ready,          ///< the work has not completed; not an error if the question was "ready?"
  usage,              ///< the call was wrong: fix the program
  unsupported,        ///< this driver or device does not support the call
  capture,            ///< a rule of stream capture was broken
  context_lost,       ///< the context, or the driver itself, is gone
  out_of_resources,   ///< memory or another resource ran out
  device_fault,       ///< device work failed: the process must restart to use CUDA
  driver_unavailable, ///< there is no usable driver or device
  other,              ///< none of these, or a code that cuevent does not know
};

/// The kind of `result`. Returns `other` for an unknown code.
/// Thread-safety: any thread.
ErrorKind kind_of(CUresult result) noexcept;

/// True for the kinds device_fault and context_lost. After a device fault, nearly every later call
/// of the process fails. After the loss of a context, every later call in that context fails.
/// Thread-safety: any thread.
bool is_sticky(CUresult result) noexcept;

/// The category of driver results. Its messages read "CUDA_ERROR_INVALID_HANDLE (400): ...". They
/// do not need a driver, and an unknown code is shown by its number.
/// Thread-safety: any thread.
const std::error_category& driver_category() noexcept;

/// `result` as an error code of driver_category(). It can be compared with an ErrorKind and, where the
/// meaning is the same, with std::errc:
///
///     const std::error_code code = make_error_code(event.try_query());
///     if (code == ErrorKind::device_fault) std::terminate();
///
/// Thread-safety: any thread.
std::error_code make_error_code(CUresult result) noexcept;

/// The kind of an error code: of its CUresult, if it is one of driver_category(). Other codes are
/// ErrorKind::success if they are 0, and otherwise ErrorKind::other.
/// Thread-safety: any thread.
ErrorKind kind_of(const std::error_code& code) noexcept;

/// A condition that is equal to each error code of this kind.
/// Thread-safety: any thread.
std::error_condition make_error_condition(ErrorKind kind) noexcept;

/// Why a call failed, if the library can tell more than the driver's result. Each cause has a class.
enum class ErrorCause : unsigned char {
  unknown,                  ///< only the result is known
  empty_event,              ///< EmptyEvent
  timing_disabled,          ///< TimingDisabled
  never_recorded,           ///< NeverRecorded
  context_mismatch,         ///< ContextMismatch
  recorded_in_capture,      ///< RecordedInCapture
  external_outside_capture, ///< ExternalOutsideCapture
  semaphore_abandoned,      ///< SemaphoreAbandoned
};

struct Failure; // internal to the library

/// The base class of all exceptions of cuevent. Catch this one to handle any failure, or a derived
/// class to handle one kind, one code or one cause.
///
///     try { event.synchronize(); }
///     catch (const DeviceFault&) { std::terminate(); } // no later CUDA call can succeed
///     catch (const DriverError& error) { std::puts(error.what()); }
///
/// A program with libcuevent.a contains only the classes that it names. A failure whose class it does not
/// contain is thrown as the nearest base class that it contains, with the same text and data.
///
/// Thread-safety: as std::exception. Copies do not throw.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class DriverError : public std::system_error {
public:
  /// `call` names the driver function. The string must stay valid until the process ends.
  /// `advice` says what to do, or why the call failed and what to do: "why: what to do". It replaces the
  /// default advice if not null.
  DriverError(CUresult result, const char* call, const char* advice = nullptr);
  [[gnu::visibility("hidden")]] explicit DriverError(const Failure& failure);
  DriverError(const DriverError&) noexcept = default;
  DriverError& operator=(const DriverError&) noexcept = default;
  // Out of line, here and below, so that the headers need neither exceptions nor RTTI.
  ~DriverError() override;

  CUresult result() const noexcept { return static_cast<CUresult>(code().value()); }
  const char* call() const noexcept { return call_; }
  /// Reads "cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): <text>; <advice>".
  const char* what() const noexcept override { return text_.what(); }

  /// \name The parts of what(), for programs with error types of their own
  /// The views are valid as long as this exception.
  /// @{
  ErrorCause cause() const noexcept { return cause_; }
  /// Why the call failed, without advice: "the start event was made without timing".
  std::string_view reason() const noexcept { return part(parts_.reason); }
  /// What the driver logged about the refused call, without its last line. Empty if it logged nothing;
  /// see driver_log.hpp.
  std::string_view driver_words() const noexcept { return part(parts_.words); }
  /// What to do, in terms of cuevent's classes. Empty if nothing is known.
  std::string_view advice() const noexcept { return part(parts_.advice); }
  /// @}

private:
  struct Part {
    unsigned begin, size; // in what()
  };
  struct Parts {
    Part reason, words, advice;
  };
  [[gnu::visibility("hidden")]] static std::runtime_error describe(const Failure& failure, Parts& parts);
  std::string_view part(Part one) const noexcept { return {what() + one.begin, one.size}; }

  const char* call_;
  Parts parts_;
  ErrorCause cause_;
  std::runtime_error text_; // shares its string, so that copies do not throw
};

/// \name One class per kind
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

/// The base class of the exceptions of each kind. The kind not_ready has only one code, so NotReady
/// derives from DriverError.
struct ErrorBase {
  using usage = UsageError;
  using unsupported = Unsupported;
  using capture = CaptureError;
  using context_lost = ContextLost;
  using out_of_resources = OutOfResources;
  using device_fault = DeviceFault;
  using driver_unavailable = DriverUnavailable;
  using not_ready = DriverError;
  using other = DriverError;
};

/// \name One class per code, from errors.inc: InvalidHandle for CUDA_ERROR_INVALID_HANDLE
/// @{
#define CUEVENT_ERROR(code, name, Class, kind, text, advice)                                                 \
  class Class : public ErrorBase::kind {                                                                     \
  public:                                                                                                    \
    [[gnu::visibility("hidden")]] explicit Class(const char* call, const char* advice_if_known = nullptr);   \
    [[gnu::visibility("hidden")]] explicit Class(const Failure& failure);                                    \
    ~Class() override;                                                                                       \
  };
#include <cuevent/errors.inc>
/// @}

/// \name One class per cause, if the library can tell why the driver refused
/// @{

/// The event is empty: it was never created, or it was moved from, closed or released. The driver
/// was not called.
class EmptyEvent : public InvalidHandle {
public:
  [[gnu::visibility("hidden")]] explicit EmptyEvent(const char* call, const char* advice_if_known = nullptr);
  [[gnu::visibility("hidden")]] explicit EmptyEvent(const Failure& failure);
  ~EmptyEvent() override;
};
/// The event was made without EventFlags::timing.
class TimingDisabled : public InvalidHandle {
public:
  [[gnu::visibility("hidden")]] explicit TimingDisabled(const char* call,
                                                        const char* advice_if_known = nullptr);
  [[gnu::visibility("hidden")]] explicit TimingDisabled(const Failure& failure);
  ~TimingDisabled() override;
};
/// The event was never recorded, so it has no time.
class NeverRecorded : public InvalidHandle {
public:
  [[gnu::visibility("hidden")]] explicit NeverRecorded(const char* call,
                                                       const char* advice_if_known = nullptr);
  [[gnu::visibility("hidden")]] explicit NeverRecorded(const Failure& failure);
  ~NeverRecorded() override;
};
/// The event and the stream, or the two events, belong to different contexts.
class ContextMismatch : public InvalidHandle {
public:
  [[gnu::visibility("hidden")]] explicit ContextMismatch(const char* call,
                                                         const char* advice_if_known = nullptr);
  [[gnu::visibility("hidden")]] explicit ContextMismatch(const Failure& failure);
  ~ContextMismatch() override;
};
/// The event was last recorded in a stream capture, so it marks no work to wait for.
class RecordedInCapture : public InvalidValue {
public:
  [[gnu::visibility("hidden")]] explicit RecordedInCapture(const char* call,
                                                           const char* advice_if_known = nullptr);
  [[gnu::visibility("hidden")]] explicit RecordedInCapture(const Failure& failure);
  ~RecordedInCapture() override;
};
/// An external flag was given for a stream that is not being captured.
class ExternalOutsideCapture : public IllegalState {
public:
  [[gnu::visibility("hidden")]] explicit ExternalOutsideCapture(const char* call,
                                                                const char* advice_if_known = nullptr);
  [[gnu::visibility("hidden")]] explicit ExternalOutsideCapture(const Failure& failure);
  ~ExternalOutsideCapture() override;
};
/// The TimelineSemaphore was abandoned, by this process or by another one.
class SemaphoreAbandoned : public IllegalState {
public:
  [[gnu::visibility("hidden")]] explicit SemaphoreAbandoned(const char* call,
                                                            const char* advice_if_known = nullptr);
  [[gnu::visibility("hidden")]] explicit SemaphoreAbandoned(const Failure& failure);
  ~SemaphoreAbandoned() override;
};
/// @}

/// Throws the exception for `result`: the class of its code, or a DriverError for an unknown code.
/// `call` and `advice` are as for DriverError.
[[noreturn, gnu::cold]] void throw_error(CUresult result, const char* call, const char* advice = nullptr);

/// Receives errors that a destructor could not throw. `function` may be called on any thread, on several
/// threads at once, and for a moment after another hook was installed. It must not throw.
struct ErrorHook {
  using Function = void (*)(CUresult result, const char* call, void* user) noexcept;
  Function function;
  void* user; ///< passed to `function`, for example your log

  friend bool operator==(const ErrorHook& a, const ErrorHook& b) noexcept {
    return a.function == b.function && a.user == b.user;
  }
  friend bool operator!=(const ErrorHook& a, const ErrorHook& b) noexcept { return !(a == b); }
};

/// Installs `hook` and returns the previous one. A null function restores the default hook, which prints one
/// line to stderr. If there is no memory to remember a new hook, the previous one stays. The library never
/// forgets a hook, which takes a few bytes each. The default hook is silent for two groups of results:
/// - Results of the kind context_lost, which are normal during teardown.
/// - Device faults, because every other call of the process reports them.
///
/// Thread-safety: any thread.
ErrorHook set_error_hook(const ErrorHook& hook) noexcept;
inline ErrorHook set_error_hook(ErrorHook::Function function, void* user = nullptr) noexcept {
  return set_error_hook(ErrorHook{function, user});
}

/// Passes `result` of the driver function `call` to the hook. For destructors. Does not pass on
/// CUDA_ERROR_NOT_INITIALIZED, the result in a forked child, and CUDA_ERROR_DEINITIALIZED, the result while
/// the process exits: in both cases, destructors do nothing.
/// Thread-safety: any thread.
[[gnu::cold]] void report_error(CUresult result, const char* call) noexcept;

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop

template <>
struct std::is_error_condition_enum<cuevent::ErrorKind> : std::true_type {};
