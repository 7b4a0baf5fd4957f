// SPDX-License-Identifier: MIT
// Which driver call of an operation was refused. Internal to the library.
#pragma once

#include "core/status.hpp"

#include <cstring>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The newest refusal of this thread, for operations that make several driver calls: a CUresult does not say
/// which call was refused. The exception and explain.hpp both read it here.
struct Refusal {
  static constinit thread_local Refusal newest [[gnu::tls_model("initial-exec")]];

  const void* object = nullptr; // whose operation it was; null if there is no object yet
  const char* call = nullptr;
  CUresult result = CUDA_SUCCESS;
};

/// Notes a failed `status` of `object`, and returns its result.
inline CUresult noted(const void* object, const Status& status) noexcept {
  if (!status) [[unlikely]]
    Refusal::newest = {.object = object, .call = status.call, .result = status.result};
  return status.result;
}

/// The call that was refused, or `usual` if this thread has noted another refusal since.
inline const char* refused_call(const void* object, CUresult result, const char* usual) noexcept {
  const Refusal& newest = Refusal::newest;
  return newest.call != nullptr && newest.object == object && newest.result == result ? newest.call : usual;
}

/// Compares names of calls: the same literal has several addresses.
inline bool is_call(const char* call, const char* name) noexcept { return std::strcmp(call, name) == 0; }

}} // namespace cuevent::CUEVENT_ABI
