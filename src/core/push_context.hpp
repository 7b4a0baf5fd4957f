// SPDX-License-Identifier: MIT
// Makes a context current that is not current yet. Internal to the library.
#pragma once

#include <cuevent/context.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// For a context that is not current. `asked` is what Context::is_current reported.
inline CUresult push_context(const Context& context, CUresult asked) noexcept {
  if (asked != CUDA_SUCCESS) [[unlikely]]
    return context ? asked : CUDA_ERROR_INVALID_CONTEXT;
  // The driver accepts a push of a destroyed context, and may crash on the next call.
  const CUresult lost = context.status();
  if (lost != CUDA_SUCCESS) return lost;
  return context.driver().table().cuCtxPushCurrent_v4000(context.native_handle());
}

}} // namespace cuevent::CUEVENT_ABI
