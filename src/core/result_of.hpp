// SPDX-License-Identifier: MIT
// Converts exceptions to results. Internal to the library.
#pragma once

#include "core/exceptions.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

/// For non-throwing overloads that call throwing code. Returns the result of `work`, or the result
/// of the DriverError that `work` throws. Any other exception counts as a failed allocation,
/// including std::length_error. In a copy without exceptions, what `work` would throw ends the program.
template <class Work>
CUresult result_of(const Work& work) noexcept {
  return catching(work, [](const DriverError* error) {
    return error != nullptr ? error->result() : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

/// As result_of(), for `work` that returns nothing: CUDA_SUCCESS if it throws nothing.
template <class Work>
CUresult thrown_by(const Work& work) noexcept {
  return result_of([&] {
    work();
    return CUDA_SUCCESS;
  });
}

}} // namespace cuevent::CUEVENT_ABI
