// SPDX-License-Identifier: MIT
// The error type for internal calls, and the report of a destructor. Internal to the library.
#pragma once

#include <cuevent/error.hpp>

#include <cuda.h>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Why a call failed, if the library knows more than the driver's result says.
enum class Reason {
  unknown,
  no_open_stage,
  no_such_stage,
  no_captured_stage,
  no_node,
  not_closed,
  other_context,
  not_capturing,
  no_such_graph
};

/// The result of one or more driver calls, and the name of the call that failed.
struct Status {
  constexpr Status() noexcept = default;
  constexpr Status(CUresult its_result, const char* its_call, Reason its_reason = Reason::unknown) noexcept
      : result(its_result), reason(its_reason), call(its_call) {}

  CUresult result = CUDA_SUCCESS;
  Reason reason = Reason::unknown; // before `call`, so that a Status fits into two registers
  const char* call = "";

  explicit operator bool() const noexcept { return result == CUDA_SUCCESS; }
};

/// For destructors: reports a failed `call` to the error hook. A lost context has taken its objects with
/// it, so there is nothing to report.
inline void report_end(CUresult result, const char* call) noexcept {
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) [[unlikely]]
    report_error(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
