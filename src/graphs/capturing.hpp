// SPDX-License-Identifier: MIT
// The capture that a stream is in. Inside the library only.
#pragma once

#include "core/status.hpp"

#include <cuevent/context.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The capture that a stream is in.
struct Capturing {
  cuuint64_t id = 0; // 0: none
  CUgraph graph = nullptr;
};

/// Finds out. CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, and no capture, if the capture is invalidated.
/// Driver functions: cuStreamIsCapturing, in a capture also cuStreamGetCaptureInfo.
Status capture_of(const Context& context, CUstream stream, Capturing& capture) noexcept;

}} // namespace cuevent::CUEVENT_ABI
