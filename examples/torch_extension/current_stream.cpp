// SPDX-License-Identifier: MIT
// PyTorch's current stream, for C++ code that gets no stream object. The only file that needs
// PyTorch's headers.
#include <c10/cuda/CUDAStream.h>

#include "event.hpp"

void record_on_current_stream(cuevent::DriverEvent& event) {
  const int device = event.context().device();
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device));
  event.record({event.context(), stream.stream()});
}
