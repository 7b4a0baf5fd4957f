// SPDX-License-Identifier: MIT
/// \file
/// \brief ErrorHook: receives the errors of destructors.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

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
