// SPDX-License-Identifier: MIT
// PyTorch's event, at::cuda::CUDAEvent.
#include "operations.hpp"

#include <c10/cuda/CUDAEvent.h>

namespace peers {

namespace {

struct Torch {
  using Stream = at::cuda::CUDAStream;
  static Stream stream(CUstream stream) { return at::cuda::getStreamFromExternal(stream, 0); }

  template <bool timed>
  class Event {
  public:
    explicit Event(const Lane&) { event_.create(0); } // otherwise its first record would do this

    void record(const Stream& stream) { event_.record(stream); }
    void wait(const Stream& stream) { event_.block(stream); }
    bool query() const { return event_.query(); }
    void synchronize() const { event_.synchronize(); }
    float elapsed(const Event& end) const { return event_.elapsed_time(end.event_); }

  private:
    at::cuda::CUDAEvent event_{timed ? cudaEventDefault : cudaEventDisableTiming};
  };
};

} // namespace

void enter_torch(Entries& entries) {
  expect(c10::cuda::device_count_ensure_non_zero() > 0, "no device");
  enter<Torch>(entries, "torch");
}

} // namespace peers
