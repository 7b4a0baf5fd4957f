// SPDX-License-Identifier: MIT
// Which Context a call may be given. Inside the library only.
#pragma once

#include <cuevent/context.hpp>

namespace cuevent {

inline void require_context(const Context& context, const char* call) {
  if (!context) throw InvalidContext(call, "the Context is empty: take one from Context::primary()");
}

/// Whether `given` is `own`, for a call that says whose default stream is meant.
inline CUresult check_context(const Context& own, const Context& given) noexcept {
  if (!given) return CUDA_ERROR_INVALID_CONTEXT;
  return given == own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

} // namespace cuevent
