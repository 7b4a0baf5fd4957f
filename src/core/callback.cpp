// SPDX-License-Identifier: MIT
#include <cuevent/callback.hpp>

#include <cuevent/error.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

void fail_null_callback(const char* call) {
  throw_error(CUDA_ERROR_INVALID_VALUE, call,
              "the callback is null: give a function, or an object that has one to call");
}

}} // namespace cuevent::CUEVENT_ABI
