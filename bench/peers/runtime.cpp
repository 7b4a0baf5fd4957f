// SPDX-License-Identifier: MIT
// The events of the CUDA runtime API.
#include "operations.hpp"

#include <cuda_runtime_api.h>

namespace peers {

namespace {

void check(cudaError_t result) {
  if (result != cudaSuccess) [[unlikely]]
    throw std::runtime_error(cudaGetErrorString(result));
}

struct Runtime {
  using Stream = cudaStream_t;
  static Stream stream(CUstream stream) { return stream; }

  template <bool timed>
  class Event {
  public:
    explicit Event(const Lane&) {
      check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { cudaEventDestroy(event_); }

    void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream)); }
    void wait(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0)); }
    bool query() const {
      const cudaError_t result = cudaEventQuery(event_);
      if (result != cudaErrorNotReady) check(result);
      return result == cudaSuccess;
    }
    void synchronize() const { check(cudaEventSynchronize(event_)); }
    float elapsed(const Event& end) const {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, event_, end.event_));
      return milliseconds;
    }

  private:
    cudaEvent_t event_ = nullptr;
  };
};

} // namespace

void enter_runtime(Entries& entries) {
  check(cudaSetDevice(0));
  check(cudaFree(nullptr));
  enter<Runtime>(entries, "runtime");
}

} // namespace peers
