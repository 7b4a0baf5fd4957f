// SPDX-License-Identifier: MIT
// How the library throws. Internal to the library.
//
// An exception class takes 350 bytes, most of them relocations, and there are more than a hundred. So each
// kind's classes are a source of their own, and this header refers to them weakly: a program with
// libcuevent.a contains the classes that it names. The library throws through throw_error() and these
// functions, because each `throw` of a class would bring the classes of its kind along.
#pragma once

#include <cuevent/error.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// What a DriverError is made of.
struct Failure {
  CUresult result;
  const char* call;
  const char* advice = nullptr; // "why: what to do", or what to do; null: as errors.inc says
  const char* words = "";       // the driver's
  ErrorCause cause = ErrorCause::unknown;
  ErrorKind kind = kind_of(result); // of the class
};

/// The result that the class of `cause` stands for.
constexpr CUresult result_for(ErrorCause cause) noexcept {
  switch (cause) {
  case ErrorCause::recorded_in_capture:
    return CUDA_ERROR_INVALID_VALUE;
  case ErrorCause::external_outside_capture:
  case ErrorCause::semaphore_abandoned:
    return CUDA_ERROR_ILLEGAL_STATE;
  default:
    return CUDA_ERROR_INVALID_HANDLE;
  }
}

/// Throws the class of the cause, of the code or of the kind, the first one that this program contains.
[[noreturn, gnu::cold]] void throw_failure(const Failure& failure);

/// As the public throw_error(), for the class of a cause.
[[noreturn, gnu::cold]] void throw_error(ErrorCause cause, const char* call, const char* advice);

/// Which class to throw: of a code, of a cause, or of a kind that the driver's call as a whole has.
struct Thrown {
  constexpr Thrown(CUresult code) noexcept : result(code) {}
  constexpr Thrown(ErrorCause its_cause) noexcept : result(result_for(its_cause)), cause(its_cause) {}
  constexpr Thrown(ErrorKind its_kind, CUresult code) noexcept : result(code), kind(its_kind) {}

  CUresult result;
  ErrorCause cause = ErrorCause::unknown;
  ErrorKind kind = ErrorKind::success; // of the result
};

/// Throws with an advice that is made as by printf.
[[noreturn, gnu::cold, gnu::format(printf, 3, 4)]] void fail(Thrown thrown, const char* call,
                                                             const char* format, ...);

/// The same for a call that the driver refused: the text has the driver's words, if the last refused call of
/// this thread was `call` with this result.
[[noreturn, gnu::cold, gnu::format(printf, 3, 4)]] void fail_refused(Thrown thrown, const char* call,
                                                                     const char* format, ...);

/// The same with `advice` as it is; null: as errors.inc says.
[[noreturn, gnu::cold]] void throw_refused(CUresult result, const char* call, const char* advice);

/// \name The classes that a program may lack: null then
/// They throw. Those of a kind return if the kind has no class for the code.
/// @{
#define CUEVENT_CLASSES(kind)                                                                                \
  [[gnu::weak, gnu::visibility("hidden"), gnu::cold]] void throw_##kind(const Failure& failure);
CUEVENT_CLASSES(kind_of_failure)
CUEVENT_CLASSES(cause_of_failure)
CUEVENT_CLASSES(not_ready)
CUEVENT_CLASSES(usage)
CUEVENT_CLASSES(unsupported)
CUEVENT_CLASSES(capture)
CUEVENT_CLASSES(context_lost)
CUEVENT_CLASSES(out_of_resources)
CUEVENT_CLASSES(device_fault)
CUEVENT_CLASSES(driver_unavailable)
CUEVENT_CLASSES(other)
#undef CUEVENT_CLASSES
/// @}

}} // namespace cuevent::CUEVENT_ABI
