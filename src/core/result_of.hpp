// SPDX-License-Identifier: MIT
// The one conversion from exceptions to results. Inside the library only.
#pragma once

#include <cuevent/error.hpp>

#include <exception>

namespace cuevent {

/// For non-throwing overloads that stand on throwing code: the result that `work` returns, or that it throws. What is no
/// DriverError is a failed allocation, std::length_error included.
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

} // namespace cuevent
