// SPDX-License-Identifier: MIT
// Every public header in one file with device code, and calls of their inline functions.
#include "every_header.hpp"

__global__ void increment(int* counter) { ++*counter; }

float launch(const cuevent::Context& context, cudaStream_t stream, int* counter) {
  cuevent::DriverEvent begin(context, cuevent::EventFlags::timing);
  cuevent::DriverEvent end(context, cuevent::EventFlags::timing);
  begin.record(stream);
  increment<<<1, 1, 0, stream>>>(counter);
  end.record(stream);
  begin.wait(stream);
  if (!end.query()) end.synchronize();
  return begin.elapsed_time(end).count();
}

CUresult launch_without_exceptions(cuevent::DriverEvent& event, cudaStream_t stream, int* counter) {
  increment<<<1, 1, 0, stream>>>(counter);
  if (const CUresult result = event.try_record(stream); result != CUDA_SUCCESS) return result;
  return event.try_synchronize_for(std::chrono::seconds(1));
}
