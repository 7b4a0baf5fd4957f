// SPDX-License-Identifier: MIT
// Converts exceptions to results. Internal to the library.
#pragma once

#include <cuevent/error.hpp>

#include <exception>

namespace cuevent { inline namespace CUEVENT_ABI {

/// For non-throwing overloads that call throwing code. Returns the result of `work`, or the result
/// of the DriverError that `work` throws. Any other exception counts as a failed allocation,
/// including std::length_error.
template <class Work>
CUresult result_of(const Work& work) noexcept {
  try {
    return work();
  } catch (const DriverError& error) {
    return error.result();
  } catch (const std::exception&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
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
