// SPDX-License-Identifier: MIT
// The text of an exception, without the exception. Internal to the library.
#pragma once

#include "core/exceptions.hpp"

#include <cuevent/explain.hpp>

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The text of the exception that `fail` throws. If that is not the exception for `result`, because what
/// caused the failure has changed since then, the text says only what `result` says. So it does in a copy
/// without exceptions, where `fail` would end the program.
template <class Fail>
std::string text_of(CUresult result, const char* call, [[maybe_unused]] const Fail& fail) {
  if constexpr (has_exceptions)
    if (result != CUDA_SUCCESS) {
      std::string text;
      catching([&] { fail(); },
               [&](const DriverError* error) {
                 if (error != nullptr && error->result() == result) text = error->what();
               });
      if (!text.empty()) return text;
    }
  return explain(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
