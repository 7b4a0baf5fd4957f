// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <atomic>
#include <string>
#include <utility>

namespace cuevent::sim {

/// The call that this thread is in, for reports.
struct CallUnderWay {
  const char* name = nullptr;
  unsigned long long number = 0;
  int process = 0;
  const char* reason = nullptr; ///< why it is refused, for the driver's log
};
inline thread_local CallUnderWay call_under_way{};

/// The reasons that several calls log, as measured. A call whose reason nobody measured logs none. Six calls
/// without a context and two with a null executable graph were asked, and here all log the same reason.
namespace reasons {
inline constexpr const char* no_context = "No CUDA context is current to the calling thread";
inline constexpr const char* null_event = "Event handle is NULL";
inline constexpr const char* other_context =
    "CU_EVENT_RECORD_EXTERNAL flag is not set and event did not come from expected device context";
inline constexpr const char* capture_is_over =
    "Event is not valid. This can be related to a graph capture that is no longer running";
inline constexpr const char* own_capture =
    "API call conflicts with a stream capture sequence initiated from the calling thread";
/// One with numbers in it. It is kept until the thread's next one.
inline const char* made(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}
} // namespace reasons

/// Thrown inside a driver call to return this result. Never crosses the driver's interface.
struct Refusal {
  CUresult result;
};

/// The reason is the line of a device's log, or several lines. Null if the device logs none, or if its log
/// was not measured.
[[noreturn]] inline void refuse(CUresult result, const char* reason = nullptr) {
  call_under_way.reason = reason;
  throw Refusal{result};
}
inline void refuse_if(bool refused, CUresult result, const char* reason = nullptr) {
  if (refused) refuse(result, reason);
}

/// Ends the program, whose calls and kernels are in the report.
[[noreturn]] void abort_with_report();

/// For calls that are undefined on a device. Prints the report with the current call, and aborts.
[[noreturn]] void undefined(const std::string& report);

/// A control call that makes no sense. Nothing has changed.
struct Misuse {
  std::string report;
};
/// Whether this thread is in a control call of another language, whose caller gets the report as a text.
inline thread_local bool misuse_is_thrown = false;
/// For control calls. Prints the report and aborts, or throws it.
[[noreturn]] void misuse(const std::string& report);

/// For calls measured to crash a process on a device. Prints the report, and crashes with the same
/// signal.
[[noreturn]] void crash_by(int signal, const std::string& report);
[[noreturn]] void crash(const std::string& report); ///< by SIGSEGV, as most do

/// How many optional calls this thread is in. A tool makes them on its own account: they are refused if they
/// are not modelled, and nobody is told.
inline thread_local unsigned optional_calls = 0;

/// For features that the simulator does not model. Aborts with the name of the call, or refuses the call with
/// CUDA_ERROR_NOT_SUPPORTED, as Options::unmodelled says. So it must come before the call changes anything.
/// Outside of a driver call it always aborts.
[[noreturn]] void not_modelled(const std::string& what);

/// For calls by host functions and destructors of user objects that no device was asked about. Prints the
/// name and aborts, or returns CUDA_ERROR_NOT_PERMITTED, as Options::unmodelled says.
CUresult call_of_a_host_function(const char* name);

/// Is told of each call that was refused because it is not modelled, with the name that the report has. Runs
/// on the thread of the call, without the computer's lock, so that it may wait for other threads. For
/// languages that know their own callers.
using RefusalHook = void (*)(const char* name);
inline std::atomic<RefusalHook> refusal_hook{nullptr};
/// Tells the hook, if such a refusal was the last thing that happened on this thread.
void tell_refusal();

enum class Refusable { no, yes }; ///< no: the function does not return an error code

/// For functions that the simulator does not model. Prints the name and the caller's stack, and aborts, or
/// returns CUDA_ERROR_NOT_SUPPORTED, as Options::unmodelled says.
CUresult unmodelled_function(const char* name, const void* caller, Refusable = Refusable::yes);

} // namespace cuevent::sim
