// SPDX-License-Identifier: MIT
#include "timing/stage_rings.hpp"

#include "core/require_context.hpp"
#include "graphs/capturing.hpp"
#include "timing/escape.hpp"

#include <cstdlib>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr double most_late = 20'000; // ns; a record in a side stream is late by less than this

HostTime host_time(long long nanoseconds) { return HostTime(std::chrono::nanoseconds(nanoseconds)); }

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
    : context_(context), options_(options), log_(options.spans), trace_(options.spans),
      records_context_(options.escapes == StageEscapes::checked) {}

Status StageRings::create() {
  if (!has_few_connections()) side_streams_.resize(options_.side_streams);
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

Status StageRings::find_or_add(StreamRef given, std::uint32_t& stream) {
  CUstream const handle = given.native_handle();
  stream = find(handle);
  if (has(stream)) [[likely]]
    return {};
  if (given.context() != nullptr)
    if (const Status status = check_home(context_, handle); !status) return status;
  return add(handle, {}, stream);
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
                                      permit_side_stream(context_, options_.side_streams));
  else
    added.recorder = BoundaryRecorder(handle, nullptr, nullptr);
  CUresult result = CUDA_SUCCESS;
  const ContextGuard guard(context_, result);
  if (result != CUDA_SUCCESS) return {result, "cuCtxPushCurrent"};
  Status status = added.ring.create(context_, options_.events_per_stream,
                                    added.recorder.has_side_stream() ? most_in_side_stream : most_in_stream,
                                    options_.escapes);
  if (status) status = added.recorder.create(context_);
  if (!status) return status;
  stream = static_cast<std::uint32_t>(streams_.size());
  trace_.add_stream(stream);
  streams_.push_back(std::move(added));
  return {};
}

Status StageRings::poll_if_due(long long now) noexcept {
  std::size_t spans = 0;
  return clock_.due(now) ? poll(spans) : Status{};
}

Status StageRings::make_room(std::uint32_t stream, std::size_t events, std::size_t records) noexcept {
  BoundaryRing& ring = streams_[stream].ring;
  if (ring.has_room(events, records)) [[likely]]
    return {};
  std::size_t spans = 0;
  Status status = clock_.check_context();
  if (status) status = read(stream, spans);
  while (!ring.has_room(events, records)) {
    if (!status && status.result != CUDA_ERROR_NOT_READY) return status;
    if (options_.when_full == WhenFull::drop || ring.all_read()) return {CUDA_ERROR_NOT_READY, ""};
    const CUresult result = wait_for(ring, ring.read());
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return {result, "cuEventQuery"};
    status = poll(spans);
  }
  return {};
}

void StageRings::push(std::uint32_t stream, Change change, long long host, Boundary::Recorded recorded,
                      LaunchPart part, bool has_context_event) noexcept {
  BoundaryRing& ring = streams_[stream].ring;
  trace_.reach(stream, ring.next());
  ring.push(change, host, recorded, part, has_context_event);
  if (has_context_event) ++of_context_;
}

bool StageRings::record_context(std::uint32_t stream) noexcept {
  if (!records_context_) [[likely]]
    return false;
  // It was not measured how much room such an event takes in the launch queues of the context.
  if (of_context_ >= most_in_stream || has_capture_besides(stream)) return false;
  BoundaryRing& ring = streams_[stream].ring;
  const CUresult result = ring.context_event(ring.next()).try_record_context(context_);
  if (result == CUDA_ERROR_NOT_SUPPORTED) records_context_ = false;
  return result == CUDA_SUCCESS;
}

bool StageRings::has_capture_besides(std::uint32_t stream) const noexcept {
  for (std::uint32_t other = 0; other < streams_.size(); ++other) {
    if (other == stream) continue;
    Capturing capture;
    if (!capture_of(context_, streams_[other].known.handle, capture) || capture.id != 0) return true;
  }
  return false;
}

CUresult StageRings::wait_for(BoundaryRing& ring, Position position) const noexcept {
  const Boundary& boundary = ring.at(position);
  const CUresult result = boundary.event.try_synchronize_for(patience);
  if (result != CUDA_SUCCESS || !boundary.has_context_event) return result;
  return ring.context_event(position).try_synchronize_for(patience);
}

Status StageRings::poll(std::size_t& spans) noexcept {
  if (const Status status = clock_.keep_up(); !status) return status;
  for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) {
    const Status status = read(stream, spans);
    if (!status && status.result != CUDA_ERROR_NOT_READY) return status;
  }
  log_waits();
  return {};
}

Status StageRings::read(std::uint32_t index, std::size_t& spans) noexcept {
  TimedStream& stream = streams_[index];
  for (; !stream.ring.all_read(); stream.ring.pop()) {
    Boundary& boundary = stream.ring.at(stream.ring.read());
    if (boundary.recorded != Boundary::Recorded::no) {
      if (boundary.has_context_event) {
        double all = 0;
        if (const Status status = clock_.time_of(stream.ring.context_event(stream.ring.read()), all); !status)
          return status;
        boundary.all = all;
      }
      if (const Status status = clock_.time_of(boundary.event, boundary.time); !status) return status;
      if (boundary.has_context_event) --of_context_;
      // A record in a side stream is late, so the next boundary can seem to come before it. Only the order of
      // a sequence is known: launches elsewhere run when they like.
      double& latest = stream.sequence_of(boundary).latest;
      const double behind = latest - boundary.time;
      if (behind > 0 && behind < most_late) boundary.time = latest;
      latest = boundary.time;
      if (boundary.recorded == Boundary::Recorded::by_launch)
        stream.called.latest = std::max(stream.called.latest, latest);
    }
    spans += log_change(index, boundary);
  }
  return {};
}

TimedStream::Sequence& TimedStream::sequence_of(const Boundary& boundary) noexcept {
  if (boundary.part.launch == 0) return called;
  if (boundary.part.launch != part.launch) before_launch = called.latest;
  if (boundary.part.launch != part.launch || boundary.part.capture != part.capture)
    launched.latest = boundary.recorded == Boundary::Recorded::by_launch ? before_launch : 0;
  part = boundary.part;
  return launched;
}

std::size_t StageRings::log_change(std::uint32_t index, Boundary& boundary) noexcept {
  TimedStream& stream = streams_[index];
  std::vector<TimedStream::Begun>& begun_stages = stream.sequence_of(boundary).begun;
  // The stages around a launch in this stream are around its stages too.
  const std::size_t around =
      boundary.recorded == Boundary::Recorded::by_launch ? stream.called.begun.size() : 0;
  std::size_t spans = 0;
  if (boundary.change.closes) {
    const TimedStream::Begun begun = begun_stages.back();
    begun_stages.pop_back();
    if (boundary.recorded != Boundary::Recorded::no) {
      log_.add(StageSpan{.number = begun.number,
                         .stage = begun.stage,
                         .stream = StreamId(index),
                         .depth = static_cast<unsigned>(around + begun_stages.size()),
                         .begin = DeviceTime(begun.begin),
                         .end = DeviceTime(boundary.time),
                         .opened = host_time(begun.opened),
                         .closed = host_time(boundary.host),
                         .escaped = escape_of(boundary.time, begun.all, boundary.all)});
      boundary.closed = begun.number;
      spans = 1;
    }
  }
  if (boundary.change.opens) {
    boundary.opened = ++numbers_;
    begun_stages.push_back(
        {*boundary.change.opens, boundary.opened, boundary.time, boundary.host, boundary.all});
  }
  return spans;
}

void StageRings::log_waits() noexcept {
  trace_.settle([&](const TracedWait& traced) {
    BoundaryRing &from = streams_[traced.from_stream].ring, &to = streams_[traced.to_stream].ring;
    if (traced.from >= from.read() || traced.to >= to.read()) return false;
    const Boundary &tail = from.at(traced.from), &head = to.at(traced.to);
    const StageWait wait{.from = tail.closed != 0 ? tail.closed : tail.opened,
                         .to = head.opened != 0 ? head.opened : head.closed,
                         .from_stream = StreamId(traced.from_stream),
                         .to_stream = StreamId(traced.to_stream),
                         .departure = DeviceTime(tail.time),
                         .arrival = DeviceTime(head.time)};
    if (from.remembers(traced.from) && to.remembers(traced.to) && wait.from != 0 && wait.to != 0)
      log_.add(wait);
    else
      trace_.miss();
    return true;
  });
}

Status StageRings::collect(std::size_t& spans) noexcept {
  while (true) {
    if (const Status status = poll(spans); !status) return status;
    const auto busy = std::find_if(streams_.begin(), streams_.end(),
                                   [](const TimedStream& stream) { return !stream.ring.all_read(); });
    if (busy == streams_.end()) return {};
    // Most often everything has completed once the newest boundary has. But graphs also run on other streams,
    // so that an older boundary can still be pending.
    CUresult result = busy->ring.newest_event().try_synchronize_for(patience);
    if (result == CUDA_SUCCESS) result = wait_for(busy->ring, busy->ring.read());
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return {result, "cuEventQuery"};
  }
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

}} // namespace cuevent::CUEVENT_ABI
