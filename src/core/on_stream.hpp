// SPDX-License-Identifier: MIT
// Calls on a stream, in the context that tells which stream is meant. Inside the library only.
#pragma once

#include "core/status.hpp"

#include <cuevent/context.hpp>

#include <type_traits>

namespace cuevent {

/// Runs `call`, which returns a CUresult or a Status, as a call on `stream`: in its context if only that tells which
/// stream is meant.
template <class Call>
auto on_stream(const Context& context, CUstream stream, Call call) noexcept -> decltype(call()) {
  if (!is_default_stream(stream)) return call();
  CUresult result = CUDA_SUCCESS;
  const ContextGuard guard(context, result);
  if (result == CUDA_SUCCESS) return call();
  if constexpr (std::is_same_v<decltype(call()), Status>)
    return Status{result, "cuCtxPushCurrent"};
  else
    return result;
}

} // namespace cuevent
