// SPDX-License-Identifier: MIT
#include "timing/boundary_ring.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

Status BoundaryRing::create(const Context& context, std::size_t events, std::size_t most_submitted,
                            StageEscapes escapes) {
  most_submitted_ = most_submitted;
  boundaries_.resize(events);
  context_events_.resize(escapes == StageEscapes::checked ? events : 0);
  for (DriverEvent& event : context_events_) {
    const CUresult result = DriverEvent::try_create(event, context, EventFlags::timing);
    if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};
  }
  for (Boundary& boundary : boundaries_) {
    const CUresult result = DriverEvent::try_create(boundary.event, context, EventFlags::timing);
    if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};
  }
  return {};
}

void BoundaryRing::push(Change change, long long host, Boundary::Recorded recorded, LaunchPart part,
                        bool has_context_event) noexcept {
  Boundary& boundary = at(next_);
  boundary.change = change;
  boundary.recorded = recorded;
  boundary.part = part;
  boundary.host = host;
  boundary.has_context_event = has_context_event;
  boundary.all.reset();
  boundary.closed = boundary.opened = 0;
  if (recorded == Boundary::Recorded::by_call) ++submitted_;
  ++next_;
}

void BoundaryRing::pop() noexcept {
  if (at(read_).recorded == Boundary::Recorded::by_call) --submitted_;
  ++read_;
}

const DriverEvent& BoundaryRing::newest_event() noexcept {
  Position last = next_ - 1;
  while (last != read_ && at(last).recorded == Boundary::Recorded::no)
    --last;
  return at(last).event;
}

}} // namespace cuevent::CUEVENT_ABI
