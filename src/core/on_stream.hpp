// SPDX-License-Identifier: MIT
// Calls on a stream, with its context current if necessary. Internal to the library.
#pragma once

#include "core/status.hpp"

#include <cuevent/stream_ref.hpp>

#include <type_traits>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Runs `call` for `stream`. `call` returns a CUresult or a Status. Makes `context` current for a
/// default stream, because only the current context identifies that stream.
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

/// `stream` for a call that is not told whose default stream is meant: that of `context`.
inline StreamRef default_of(const Context& context, CUstream stream) noexcept {
  return is_default_stream(stream) ? StreamRef(context, stream) : StreamRef(stream);
}

}} // namespace cuevent::CUEVENT_ABI
