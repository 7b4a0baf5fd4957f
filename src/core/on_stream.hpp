// Calls on a stream, in the context that tells which stream is meant. Inside the library only.
#pragma once

#include <cuevent/context.hpp>

namespace cuevent {

/// Runs `call` as a call on `stream`: in its context if only that tells which stream is meant.
template <class Call>
CUresult on_stream(const Context& context, CUstream stream, Call call) noexcept {
  if (!is_default_stream(stream)) return call();
  CUresult result = CUDA_SUCCESS;
  const ContextGuard guard(context, result);
  return result == CUDA_SUCCESS ? call() : result;
}

} // namespace cuevent
