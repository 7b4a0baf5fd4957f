// SPDX-License-Identifier: MIT
// CCCL's two types of event.
#include "operations.hpp"

#include <cuda/devices>
#include <cuda/stream>

#include <type_traits>

namespace peers {

namespace {

struct Cccl {
  using Stream = cuda::stream_ref;
  static Stream stream(CUstream stream) { return cuda::stream_ref(stream); }

  template <bool timed>
  class Event {
  public:
    explicit Event(const Lane&) {}

    void record(Stream stream) { event_.record(stream); }
    void wait(Stream stream) const { stream.wait(event_); }
    bool query() const { return event_.is_done(); }
    void synchronize() const { event_.sync(); }
    float elapsed(const Event& end) const {
      return 1e-6F * static_cast<float>((end.event_ - event_).count());
    }

  private:
    std::conditional_t<timed, cuda::timed_event, cuda::event> event_{cuda::devices[0]};
  };
};

} // namespace

void enter_cccl(Entries& entries) {
  const cuda::event event(cuda::devices[0]); // throws if there is no driver
  enter<Cccl>(entries, "cccl");
}

} // namespace peers
