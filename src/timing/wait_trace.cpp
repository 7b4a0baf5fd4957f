// SPDX-License-Identifier: MIT
#include "timing/wait_trace.hpp"

#include <iterator>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr std::size_t most_records = 64;

} // namespace

WaitTrace::WaitTrace(std::size_t most_waits) {
  records_.reserve(most_records);
  waits_.reserve(most_waits);
}

void WaitTrace::add_stream(std::uint32_t stream) {
  if (streams_.size() <= stream) streams_.resize(stream + std::size_t{1});
}

void WaitTrace::recorded(CUevent event, StreamPoint at) {
  const Record record{event, at};
  const auto before =
      std::find_if(records_.begin(), records_.end(), [&](const Record& each) { return each.event == event; });
  if (before != records_.end())
    *before = record;
  else if (records_.size() < most_records)
    records_.push_back(record);
  else
    records_[next_record_++ % most_records] = record;
}

std::optional<TracedWait> WaitTrace::waited(CUevent event, StreamPoint at, bool joins) const noexcept {
  const auto found =
      std::find_if(records_.begin(), records_.end(), [&](const Record& each) { return each.event == event; });
  if (found == records_.end() || found->at.after == no_position) return std::nullopt;
  const StreamPoint& from = found->at;
  if (at.capture == 0) at.capture = from.capture; // the wait has made the stream join the capture
  if (at.capture != from.capture || (at.capture != 0 && !joins)) return std::nullopt;
  return TracedWait{
      .capture = at.capture, .from_stream = from.stream, .from = from.after, .to_stream = at.stream};
}

void WaitTrace::add_to_stream(const TracedWait& wait) noexcept {
  if (!streams_[wait.to_stream].add(wait)) miss();
}

void WaitTrace::add(const TracedWait& wait) noexcept {
  if (waits_.size() < waits_.capacity())
    waits_.push_back(wait);
  else
    miss();
}

void WaitTrace::reach(std::uint32_t stream, Position boundary) noexcept {
  streams_[stream].end_at(boundary, [&](const TracedWait& wait) { add(wait); });
}

std::vector<TracedWait> WaitTrace::waits_of(std::uint32_t stream) const {
  std::vector<TracedWait> found;
  std::copy_if(waits_.begin(), waits_.end(), std::back_inserter(found),
               [&](const TracedWait& wait) { return wait.to_stream == stream; });
  if (stream < streams_.size()) found.insert(found.end(), streams_[stream].begin(), streams_[stream].end());
  return found;
}

}} // namespace cuevent::CUEVENT_ABI
