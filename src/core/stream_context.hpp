// SPDX-License-Identifier: MIT
// The context of a stream, for error messages. Inside the library only.
#pragma once

#include <cuevent/driver.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Call this only for a stream that the driver has just looked at without crashing. Null if the
/// driver does not say. Driver function: cuStreamGetCtx.
inline CUcontext context_of(const DriverTable& table, CUstream stream) noexcept {
  CUcontext context = nullptr;
  return table.cuStreamGetCtx_v9020(stream, &context) == CUDA_SUCCESS ? context : nullptr;
}

}} // namespace cuevent::CUEVENT_ABI
