// SPDX-License-Identifier: MIT
// The text of an exception, without the exception. Internal to the library.
#pragma once

#include <cuevent/error.hpp>
#include <cuevent/explain.hpp>

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The text of the exception that `fail` throws. If that is not the exception for `result`, because what
/// caused the failure has changed since then, the text says only what `result` says.
template <class Fail>
std::string text_of(CUresult result, const char* call, const Fail& fail) {
  if (result != CUDA_SUCCESS) {
    try {
      fail();
    } catch (const DriverError& error) {
      if (error.result() == result) return error.what();
    }
  }
  return explain(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
