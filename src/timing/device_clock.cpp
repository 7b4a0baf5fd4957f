// SPDX-License-Identifier: MIT
#include "timing/device_clock.hpp"

#include "timing/elapsed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cuevent { inline namespace CUEVENT_ABI {

Status DeviceClock::create(const Context& context) noexcept {
  context_ = context;
  {
    CUresult result = CUDA_SUCCESS;
    const ContextGuard guard(context, result);
    if (result != CUDA_SUCCESS) return {result, "cuCtxPushCurrent"};
    result = stream_.create(context);
    if (result != CUDA_SUCCESS) return {result, "cuStreamCreate"};
    const auto make = [&](DriverEvent& event) {
      if (result == CUDA_SUCCESS) result = DriverEvent::try_create(event, context, EventFlags::timing);
    };
    for (Anchor& anchor : anchors_)
      make(anchor.event);
    for (DriverEvent& event : probes_)
      make(event);
    if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};
  }
  if (const Status status = record(anchors_[0].event); !status) return status;
  if (const Status status = wait_for(anchors_[0].event); !status) return status;
  known_ = 1;
  return calibrate();
}

Status DeviceClock::record(DriverEvent& event) noexcept {
  return {event.try_record(stream_.handle()), "cuEventRecord"};
}

Status DeviceClock::wait_for(const DriverEvent& event) noexcept {
  // The event completes at once. Neither a sleep nor cuEventSynchronize, which would invalidate a
  // capture of this thread.
  CUresult result;
  do
    result = event.try_query_relaxed();
  while (result == CUDA_ERROR_NOT_READY);
  return {result, "cuEventQuery"};
}

void DeviceClock::rounded(double nanoseconds) noexcept {
  const DeviceTime rounding(std::abs(nanoseconds) * std::numeric_limits<float>::epsilon() / 2);
  reading_.rounding = std::max(reading_.rounding, rounding);
}

const DeviceClock::Anchor& DeviceClock::nearest_to(double time) const noexcept {
  std::size_t nearest = newest_;
  for (std::size_t age = 1; age < known_; ++age) {
    const std::size_t older = (newest_ + anchors_.size() - age) % anchors_.size();
    if (std::abs(anchors_[older].time - time) >= std::abs(anchors_[nearest].time - time)) break;
    nearest = older;
  }
  return anchors_[nearest];
}

Status DeviceClock::time_of(const DriverEvent& event, double& time) noexcept {
  const Anchor& newest = anchors_[newest_];
  double distance = 0;
  Status status = elapsed(newest.event, event, distance);
  if (!status) return status;
  const Anchor& nearest = nearest_to(newest.time + distance); // precise enough to find the nearest
  if (&nearest != &newest) status = elapsed(nearest.event, event, distance);
  if (!status) return status;
  rounded(distance);
  time = nearest.time + distance;
  return status;
}

Status DeviceClock::drop_anchor() noexcept {
  anchored_ = host_now();
  known_ = std::min(known_, anchors_.size() - 1); // the oldest makes room
  const Status status = record(anchors_[next_anchor()].event);
  on_its_way_ = static_cast<bool>(status);
  return status;
}

Status DeviceClock::take_anchor() noexcept {
  const Anchor& newest = anchors_[newest_];
  Anchor& next = anchors_[next_anchor()];
  double distance = 0;
  if (const Status status = elapsed(newest.event, next.event, distance); !status) return status;
  rounded(distance);
  next.time = newest.time + distance;
  newest_ = next_anchor();
  ++known_;
  on_its_way_ = false;
  return {};
}

Status DeviceClock::keep_up() noexcept {
  if (const Status status = check_context(); !status) return status;
  if (on_its_way_) {
    const Status status = take_anchor();
    if (!status) return status.result == CUDA_ERROR_NOT_READY ? Status{} : status;
  }
  return due(host_now()) ? drop_anchor() : Status{};
}

Status DeviceClock::calibrate() noexcept {
  Status status = check_context();
  const auto take = [&] { // the anchor that is on its way
    if (status) status = wait_for(anchors_[next_anchor()].event);
    if (status) status = take_anchor();
  };
  if (on_its_way_) take();
  if (status) status = drop_anchor();
  take();
  long long resolution = 0;
  if (status) status = align(resolution);
  if (status) status = probe(resolution);
  if (status) reading_.resolution = DeviceTime(static_cast<double>(resolution));
  return status;
}

Status DeviceClock::align(long long& resolution) noexcept {
  // An event happens after the host requests it and before the host sees that it has completed. So
  // each round bounds the distance between the two clocks from both sides. All rounds together give
  // closer bounds than any single round.
  constexpr int rounds = 32;
  struct Bounds {
    double low, high;
    double width() const { return high - low; }
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Bounds all{-infinity, infinity}, narrowest{-infinity, infinity};
  const double anchor_time = anchors_[newest_].time;
  const long long start = host_now();
  double distance = 0; // from the newest anchor, which is recent
  for (int i = 0; i < rounds; ++i) {
    const long long before = host_now() - start;
    Status status = record(probes_[0]);
    if (status) status = wait_for(probes_[0]);
    const long long after = host_now() - start;
    if (status) status = elapsed(anchors_[newest_].event, probes_[0], distance);
    if (!status) return status;
    resolution = std::gcd(resolution, std::llround(distance));
    const double time = anchor_time + distance;
    const Bounds bounds{static_cast<double>(before) - time, static_cast<double>(after) - time};
    all = {std::max(all.low, bounds.low), std::min(all.high, bounds.high)};
    if (bounds.width() < narrowest.width()) narrowest = bounds;
  }
  if (all.low > all.high) all = narrowest; // one of the clocks was set in the meantime
  reading_.epoch = HostTime(std::chrono::nanoseconds(start + std::llround(all.low + all.width() / 2)));
  reading_.uncertainty = DeviceTime(all.width() / 2);
  reading_.calibrated_at = DeviceTime(anchor_time + distance);
  return {};
}

Status DeviceClock::probe(long long& resolution) noexcept {
  for (DriverEvent& event : probes_)
    if (const Status status = record(event); !status) return status;
  if (const Status status = wait_for(probes_.back()); !status) return status;
  std::array<double, std::tuple_size_v<decltype(probes_)> - 1> gaps{};
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const Status status = elapsed(probes_[i], probes_[i + 1], gaps[i]);
    if (!status) return status;
    resolution = std::gcd(resolution, std::llround(gaps[i]));
  }
  const auto middle = gaps.begin() + gaps.size() / 2;
  std::nth_element(gaps.begin(), middle, gaps.end());
  reading_.empty_stage = DeviceTime(*middle);
  return {};
}

}} // namespace cuevent::CUEVENT_ABI
