// What a StageTimer learns when events have completed, and what it makes of it.
#include "timing/stage_timer.hpp"

#include <algorithm>
#include <unordered_set>

namespace cuevent {

namespace {

constexpr std::chrono::milliseconds patience{50}; // between two looks at the clock's anchors
constexpr double lateness = 20'000;               // ns, which events beside a stream stay well under

HostTime host_time(long long nanoseconds) { return HostTime(std::chrono::nanoseconds(nanoseconds)); }

std::size_t index_of(StageId stage) { return static_cast<std::size_t>(stage); }

/// The elements of a ring in the order in which they came: `count` did.
template <class Element>
std::vector<Element> in_order(const std::vector<Element>& ring, std::uint64_t count) {
  if (count <= ring.size()) return {ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(count)};
  const auto oldest = ring.begin() + static_cast<std::ptrdiff_t>(count % ring.size());
  std::vector<Element> all(oldest, ring.end());
  all.insert(all.end(), ring.begin(), oldest);
  return all;
}

template <class Element>
void add_to_ring(std::vector<Element>& ring, std::uint64_t& count, const Element& element) noexcept {
  if (!ring.empty()) ring[count++ % ring.size()] = element;
}

} // namespace

CUresult StageTimer::State::make_room(Track& track, std::size_t events, std::size_t records) noexcept {
  std::size_t spans = 0;
  if (track.has_room(events, records)) [[likely]]
    return CUDA_SUCCESS;
  CUresult result = read(track, spans);
  while (!track.has_room(events, records)) {
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return result;
    if (options.when_full == WhenFull::drop || track.read == track.next) return CUDA_ERROR_NOT_READY;
    result = track.at(track.read).event.try_synchronize_for(patience);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return failed("cuEventQuery", result);
    result = poll(spans);
  }
  return CUDA_SUCCESS;
}

CUresult StageTimer::State::read(Track& track, std::size_t& spans) noexcept {
  for (; track.read != track.next; ++track.read) {
    Boundary& boundary = track.at(track.read);
    if (boundary.recorded != Boundary::Recorded::no) {
      const CUresult result = clock.time_of(boundary.event, boundary.time);
      if (result != CUDA_SUCCESS) return failed_in_clock(result);
      // An event in a graph can be ahead of one before it that was recorded beside the stream, which is late.
      const double behind = track.latest - boundary.time;
      if (behind > 0 && behind < lateness) boundary.time = track.latest;
      track.latest = boundary.time;
    }
    if (boundary.recorded == Boundary::Recorded::by_call) --track.submitted;
    spans += retire(track, boundary);
  }
  return CUDA_SUCCESS;
}

std::size_t StageTimer::State::retire(Track& track, Boundary& boundary) noexcept {
  std::size_t spans = 0;
  if (boundary.change.closes) {
    const Track::Begun begun = track.begun.back();
    track.begun.pop_back();
    if (boundary.recorded != Boundary::Recorded::no) {
      const StageSpan span{.number = begun.number,
                           .stage = begun.stage,
                           .stream = StreamId(&track - tracks.data()),
                           .depth = static_cast<unsigned>(track.begun.size()),
                           .begin = DeviceTime(begun.begin),
                           .end = DeviceTime(boundary.time),
                           .opened = host_time(begun.opened),
                           .closed = host_time(boundary.host)};
      statistics[index_of(begun.stage)].durations.add((span.end - span.begin).count());
      add_to_ring(spans_, spans_read_, span);
      boundary.closed = begun.number;
      spans = 1;
    }
  }
  if (boundary.change.opens) {
    boundary.opened = ++numbers_;
    track.begun.push_back({*boundary.change.opens, boundary.opened, boundary.time, boundary.host});
  }
  return spans;
}

CUresult StageTimer::State::poll(std::size_t& spans) noexcept {
  forget_ended_captures();
  if (const CUresult result = clock.keep_up(); result != CUDA_SUCCESS) return failed_in_clock(result);
  for (Track& track : tracks) {
    const CUresult result = read(track, spans);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return result;
  }
  resolve_arrows();
  return CUDA_SUCCESS;
}

CUresult StageTimer::State::collect(std::size_t& spans) noexcept {
  while (true) {
    if (const CUresult result = poll(spans); result != CUDA_SUCCESS) return result;
    const auto busy = std::find_if(tracks.begin(), tracks.end(),
                                   [](const Track& track) { return track.read != track.next; });
    if (busy == tracks.end()) return CUDA_SUCCESS;
    // The last that was recorded; not longer at a time than an anchor of the clock may wait.
    Ticket last = busy->next - 1;
    while (last != busy->read && busy->at(last).recorded == Boundary::Recorded::no)
      --last;
    const CUresult result = busy->at(last).event.try_synchronize_for(patience);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return failed("cuEventQuery", result);
  }
}

void StageTimer::State::resolve_arrows() noexcept {
  const auto resolved = [&](const Arrow& arrow) {
    Track &from = tracks[arrow.from_track], &to = tracks[arrow.to_track];
    if (arrow.from >= from.read || arrow.to >= to.read) return false;
    const Boundary &tail = from.at(arrow.from), &head = to.at(arrow.to);
    const StageWait wait{.from = tail.closed != 0 ? tail.closed : tail.opened,
                         .to = head.opened != 0 ? head.opened : head.closed,
                         .from_stream = StreamId(arrow.from_track),
                         .to_stream = StreamId(arrow.to_track),
                         .departure = DeviceTime(tail.time),
                         .arrival = DeviceTime(head.time)};
    const bool known = from.remembers(arrow.from) && to.remembers(arrow.to) && wait.from != 0 && wait.to != 0;
    if (known)
      add_to_ring(waits_, waits_read_, wait);
    else
      ++untraced_;
    return true;
  };
  arrows_.erase(std::remove_if(arrows_.begin(), arrows_.end(), resolved), arrows_.end());
}

StageReport StageTimer::State::report() const {
  StageReport report;
  for (const Statistics& each : statistics) {
    const DurationHistogram& durations = each.durations;
    const auto count = durations.count();
    report.stages.push_back(
        {.name = each.name,
         .count = count,
         .dropped = each.dropped,
         .total = DeviceTime(durations.total()),
         .min = DeviceTime(durations.min()),
         .mean = DeviceTime(count == 0 ? 0 : durations.total() / static_cast<double>(count)),
         .p50 = DeviceTime(durations.percentile(50)),
         .p90 = DeviceTime(durations.percentile(90)),
         .p99 = DeviceTime(durations.percentile(99)),
         .max = DeviceTime(durations.max())});
  }
  for (const Track& track : tracks)
    report.streams.push_back(track.stream);
  report.spans = in_order(spans_, spans_read_);
  report.waits = in_order(waits_, waits_read_);
  std::unordered_set<std::uint64_t> numbers;
  for (const StageSpan& span : report.spans)
    numbers.insert(span.number);
  std::erase_if(report.waits, [&](const StageWait& wait) {
    return !numbers.contains(wait.from) || !numbers.contains(wait.to);
  });
  report.untraced_waits = untraced_;
  report.clock = clock.reading();
  return report;
}

void StageTimer::State::clear() noexcept {
  for (Statistics& each : statistics) {
    each.durations = {};
    each.dropped = 0;
  }
  spans_read_ = waits_read_ = untraced_ = 0;
}

} // namespace cuevent
