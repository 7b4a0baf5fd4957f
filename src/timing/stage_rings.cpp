// SPDX-License-Identifier: MIT
#include "timing/stage_rings.hpp"

#include <cstdlib>
#include <utility>

namespace cuevent {

namespace {

/// A stream that waits can hold up the streams with which it shares a connection. The driver's
/// default is eight connections.
bool has_few_connections() noexcept {
  const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections != nullptr && std::atoi(connections) < 8;
}

bool same_stream(CUstream a, CUstream b) noexcept {
  const auto is_legacy = [](CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY; };
  return a == b || (is_legacy(a) && is_legacy(b));
}

} // namespace

StageRings::StageRings(const Context& context, const StageTimerOptions& options)
    : context_(context), options_(options), log_(options.spans), trace_(options.spans) {}

Status StageRings::create() {
  if (!has_few_connections()) side_streams_.resize(options_.streams_beside);
  CUresult result = CUDA_SUCCESS;
  {
    const ContextGuard guard(context_, result);
    if (result != CUDA_SUCCESS) return {result, "cuCtxPushCurrent"};
    for (TimerStream& stream : side_streams_)
      if (result = stream.create(context_); result != CUDA_SUCCESS) return {result, "cuStreamCreate"};
  }
  return clock_.create(context_);
}

std::uint32_t StageRings::find(CUstream handle) noexcept {
  if (has(last_found_) && streams_[last_found_].known.handle == handle) return last_found_;
  const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const TimedStream& each) {
    return same_stream(each.known.handle, handle);
  });
  return last_found_ = static_cast<std::uint32_t>(found - streams_.begin());
}

Status StageRings::find_or_add(CUstream handle, std::uint32_t& stream) {
  stream = find(handle);
  return has(stream) ? Status{} : add(handle, {}, stream);
}

Status StageRings::add(CUstream handle, std::string_view name, std::uint32_t& stream) {
  const auto used =
      static_cast<std::size_t>(std::count_if(streams_.begin(), streams_.end(), [](const TimedStream& each) {
        return each.recorder.has_side_stream();
      }));
  TimedStream added;
  added.known = {.name = name.empty() ? "stream " + std::to_string(streams_.size()) : std::string(name),
                 .handle = handle};
  // The per-thread stream is a different stream on each thread.
  if (used < side_streams_.size() && handle != CU_STREAM_PER_THREAD)
    added.recorder = BoundaryRecorder(handle, side_streams_[used].handle(),
                                      permit_side_stream(context_, options_.streams_beside));
  else
    added.recorder = BoundaryRecorder(handle, nullptr, nullptr);
  CUresult result = CUDA_SUCCESS;
  const ContextGuard guard(context_, result);
  if (result != CUDA_SUCCESS) return {result, "cuCtxPushCurrent"};
  Status status = added.ring.create(context_, options_.events_per_stream,
                                    added.recorder.has_side_stream() ? most_in_side_stream : most_in_stream);
  if (status) status = added.recorder.create(context_);
  if (!status) return status;
  stream = static_cast<std::uint32_t>(streams_.size());
  trace_.add_stream(stream);
  streams_.push_back(std::move(added));
  return {};
}

Status StageRings::make_room(std::uint32_t stream, std::size_t events, std::size_t records) noexcept {
  BoundaryRing& ring = streams_[stream].ring;
  if (ring.has_room(events, records)) [[likely]]
    return {};
  std::size_t spans = 0;
  Status status = read(stream, spans);
  while (!ring.has_room(events, records)) {
    if (!status && status.result != CUDA_ERROR_NOT_READY) return status;
    if (options_.when_full == WhenFull::drop || ring.all_read()) return {CUDA_ERROR_NOT_READY, ""};
    const CUresult result = ring.at(ring.read()).event.try_synchronize_for(patience);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return {result, "cuEventQuery"};
    status = poll(spans);
  }
  return {};
}

void StageRings::push(std::uint32_t stream, Change change, long long host, Boundary::Recorded recorded,
                      LaunchPart part) noexcept {
  BoundaryRing& ring = streams_[stream].ring;
  trace_.reach(stream, ring.next());
  ring.push(change, host, recorded, part);
}

void StageRings::give_back_side_streams() noexcept {
  for (TimedStream& stream : streams_)
    stream.recorder.give_back_permit();
}

StageReport StageRings::report() const {
  StageReport report;
  log_.write(report);
  for (const TimedStream& stream : streams_)
    report.streams.push_back(stream.known);
  report.untraced_waits = trace_.untraced();
  report.clock = clock_.reading();
  return report;
}

} // namespace cuevent
