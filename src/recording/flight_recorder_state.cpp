// SPDX-License-Identifier: MIT
#include "recording/flight_recorder_state.hpp"

#include "core/capture_state.hpp"
#include "core/on_stream.hpp"
#include "core/relaxed_mode.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "core/this_thread.hpp"
#include "core/virtual_clock.hpp"
#include "graphs/capturing.hpp"
#include "recording/flight_analysis.hpp"
#include "recording/flight_dump.hpp"
#include "recording/flight_reading.hpp"

#include <cerrno>
#include <ctime>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

CUstream one_handle(CUstream stream) noexcept { return stream == nullptr ? CU_STREAM_LEGACY : stream; }

/// The time of std::chrono::steady_clock, but read in a quarter of the time. Async-signal-safe.
long long coarse_real_now() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void count(std::atomic<std::uint64_t>& number) noexcept {
  number.store(number.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

} // namespace

FlightRecorder::State::State(const Context& its_context, const FlightRecorderOptions& its_options)
    : context(its_context), options(its_options), virtual_time_(has_virtual_clock(table())) {}

Status FlightRecorder::State::create() {
  if (options.graph_marks == GraphMarks::events) return {};
  words = std::make_shared<MarkWords>();
  return words->create(context);
}

long long FlightRecorder::State::coarse_now() const noexcept {
  if (!virtual_time_) [[likely]]
    return coarse_real_now();
  const long long now = table().clock_now();
  latest_time_.store(now, std::memory_order_relaxed);
  return now;
}

Status FlightRecorder::State::find_or_add(CUstream handle, RecordedStream*& found) noexcept {
  handle = one_handle(handle);
  found = find_live(handle);
  if (found != nullptr) [[likely]]
    return {};
  const Status status = add(handle, {});
  if (status) found = streams.find(handle);
  return status;
}

RecordedStream* FlightRecorder::State::find_live(CUstream handle) noexcept {
  RecordedStream* const found = streams.find(handle);
  if (found == nullptr || found->direct.load(std::memory_order_relaxed)) [[likely]]
    return found;
  // A default stream stays one of the recorder's context, and nothing can be done there after its end.
  if (is_default_stream(handle) || !found->has_ended()) return found;
  streams.hide(*found);
  return nullptr;
}

Status FlightRecorder::State::add(StreamRef given, std::string_view name) noexcept {
  CUstream const handle = one_handle(given.native_handle());
  Context its = given.context_or(context);
  if (given.context() != nullptr) {
    if (const Status status = check_home(its, handle); !status) return status;
  } else if (!is_default_stream(handle)) {
    CUcontext native = nullptr;
    CUresult result = table().cuStreamGetCtx_v9020(handle, &native);
    if (result != CUDA_SUCCESS) return {result, "cuStreamGetCtx"};
    Context borrowed; // compared by its id: a later context can have the recorder's handle
    result = Context::try_borrow(borrowed, native, context.driver());
    if (result != CUDA_SUCCESS) return {result, "cuCtxGetId"};
    if (borrowed != context) its = borrowed;
  }
  if (is_default_stream(handle) && its != context)
    return {CUDA_ERROR_INVALID_HANDLE, "FlightRecorder::add_stream", Reason::other_context};
  RecordedStream* stream = find_live(handle);
  if (stream == nullptr) {
    Status status;
    const CUresult result = result_of([&] {
      auto made = std::make_unique<RecordedStream>(
          handle, handle == CU_STREAM_PER_THREAD ? this_thread() : nullptr, its, options.marks_per_stream);
      made->direct.store(is_direct(handle, its), std::memory_order_relaxed);
      status = made->ring.create(its, options.marks_per_stream);
      if (status) stream = streams.add(std::move(made));
      return status && stream == nullptr ? CUDA_ERROR_NOT_INITIALIZED : status.result;
    });
    if (result != CUDA_SUCCESS) return {result, status ? "FlightRecorder::add_stream" : status.call};
  }
  if (given.context() != nullptr && stream->context != its)
    return {CUDA_ERROR_INVALID_HANDLE, "FlightRecorder::add_stream", Reason::other_context};
  if (!name.empty()) stream->rename(name);
  return {};
}

Status FlightRecorder::State::submit(RecordedStream& stream, const MarkedPlace& place,
                                     Submitted& submitted) noexcept {
  if (!is_default_stream(stream.handle)) [[likely]]
    return submit_here(stream, place, submitted);
  return on_stream(stream.context, stream.handle, [&] { return submit_here(stream, place, submitted); });
}

Status FlightRecorder::State::submit_here(RecordedStream& stream, const MarkedPlace& place,
                                          Submitted& submitted) noexcept {
  submitted = Submitted::no;
  const CaptureState capture = capture_state(table(), stream.handle);
  if (capture.result != CUDA_SUCCESS) return {capture.result, "cuStreamIsCapturing"};
  if (capture.capturing()) {
    submitted = Submitted::in_capture;
    return {};
  }
  bool has_room = false;
  const Status status = stream.ring.submit(stream.handle, place, has_room);
  if (has_room && status)
    submitted = Submitted::yes;
  else
    count(stream.dropped);
  return status;
}

Status FlightRecorder::State::mark(CUstream handle, std::string_view name) noexcept {
  RecordedStream* stream = streams.find(one_handle(handle));
  Submitted submitted{};
  Status status;
  if (stream != nullptr && stream->direct.load(std::memory_order_relaxed)) [[likely]] {
    status = submit_here(*stream, {.time = coarse_now(), .name = ShortName(name)}, submitted);
  } else {
    status = find_or_add(handle, stream);
    if (!status) return status;
    status = submit(*stream, {.time = coarse_now(), .name = ShortName(name)}, submitted);
  }
  return submitted == Submitted::in_capture ? mark_capture(*stream, name) : status;
}

Status FlightRecorder::State::mark_capture(const RecordedStream& stream, std::string_view name) noexcept {
  Status status{CUDA_SUCCESS, "cuGraphRetainUserObject"};
  const CUresult result = result_of([&] {
    std::uint64_t number = 0;
    std::shared_ptr<CapturedMarks> marks;
    const Status found = find_capture(stream, number, marks);
    status = found ? capture_mark(*marks, stream.context, stream.handle, stream.index, name) : found;
    return status.result;
  });
  return {result, status.call, status.reason};
}

Status FlightRecorder::State::find_capture(const RecordedStream& stream, std::uint64_t& number,
                                           std::shared_ptr<CapturedMarks>& marks) {
  Capturing capture;
  const Status status = capture_of(stream.context, stream.handle, capture);
  if (!status) return {status.result, "cuStreamGetCaptureInfo"};
  if (capture.id == 0)
    return {CUDA_ERROR_ILLEGAL_STATE, "FlightRecorder::name_capture", Reason::not_capturing};
  return graphs.find_or_add(stream.context, capture, words, number, marks);
}

Status FlightRecorder::State::name_capture(CUstream handle, std::string_view name,
                                           FlightGraph& graph) noexcept {
  RecordedStream* stream = nullptr;
  Status status = find_or_add(handle, stream);
  if (!status) return status;
  status.call = "cuGraphRetainUserObject";
  const CUresult result = result_of([&] {
    std::uint64_t number = 0;
    std::shared_ptr<CapturedMarks> marks;
    status = find_capture(*stream, number, marks);
    if (!status) return status.result;
    graphs.rename(number, name);
    graph = FlightGraph(number);
    status = capture_beginning(*marks, stream->context, stream->handle, stream->index);
    return status.result;
  });
  return {result, status.call, status.reason};
}

Status FlightRecorder::State::launched(CUstream handle, FlightGraph graph) noexcept {
  RecordedStream* stream = nullptr;
  const Status status = find_or_add(handle, stream);
  if (!status) return status;
  std::uint64_t replay = 0;
  const Status counted = graphs.count_launch(static_cast<std::uint64_t>(graph), replay);
  if (!counted) return counted;
  Submitted submitted{};
  return submit(*stream, {.time = coarse_now(), .graph = static_cast<std::uint64_t>(graph), .replay = replay},
                submitted);
}

Status FlightRecorder::State::note_record(EventRef event, RecordedStream& stream) noexcept {
  Submitted submitted{};
  const Status status = submit(stream, {.time = coarse_now()}, submitted);
  if (submitted == Submitted::yes)
    events.record(event.native_handle(), {stream.index, stream.ring.submitted() - 1});
  else
    events.forget(event.native_handle());
  return status;
}

Status FlightRecorder::State::note_wait(EventRef event, RecordedStream& stream) noexcept {
  CaptureState capture{};
  const Status status = on_stream(stream.context, stream.handle, [&] {
    capture = capture_state(table(), stream.handle);
    return Status{capture.result, "cuStreamIsCapturing"};
  });
  if (!status || capture.capturing()) return status; // a wait in a capture is a wait of the graph
  if (const std::optional<StreamPlace> from = events.find(event.native_handle()))
    return note(stream,
                {.before = stream.ring.submitted(), .stream = from->stream, .position = from->position});
  count(stream.untraced);
  return {};
}

Status FlightRecorder::State::note_signal(CUstream handle, const void* object, std::uint64_t value) noexcept {
  RecordedStream* stream = nullptr;
  Status status = find_or_add(handle, stream);
  if (!status) return status;
  Submitted submitted{};
  status = submit(*stream, {.time = coarse_now()}, submitted);
  if (submitted != Submitted::yes) return status;
  return {thrown_by([&] {
            signals.add(object, value, {stream->index, stream->ring.submitted() - 1});
          }),
          "FlightRecorder::note_signal"};
}

Status FlightRecorder::State::note_wait(CUstream handle, const void* object, std::uint64_t value,
                                        std::string_view name) noexcept {
  RecordedStream* stream = nullptr;
  Status status = find_or_add(handle, stream);
  if (!status) return status;
  Submitted submitted{};
  status = submit(*stream, {.time = coarse_now()}, submitted);
  if (submitted == Submitted::yes)
    return note(*stream, {.before = stream->ring.submitted(),
                          .object = reinterpret_cast<std::uintptr_t>(object),
                          .value = value,
                          .name = ShortName(name)});
  if (status) count(stream->untraced);
  return status;
}

Status FlightRecorder::State::note(RecordedStream& stream, const NotedWait& wait) noexcept {
  if (stream.waits.add(wait, stream.ring.seen())) return {};
  Status status;
  if (stream.waits.may_look()) {
    RelaxedMode relaxed(table()); // the thread may be capturing another stream
    status = {relaxed.enter(), "cuThreadExchangeStreamCaptureMode"};
    Position reached = stream.ring.seen();
    if (status) status = {stream.ring.look(stream.ring.submitted(), reached), "cuEventQuery"};
    if (stream.waits.add(wait, reached)) return status;
  }
  count(stream.untraced);
  return status;
}

void FlightRecorder::State::begin_call(CUstream handle, std::string_view name) noexcept {
  RecordedStream* stream = streams.find(one_handle(handle));
  if (stream == nullptr && !find_or_add(handle, stream)) return; // the mark at the end says why
  const ShortName kept(name);
  stream->call.retract();
  stream->call.publish(0, {static_cast<std::uint64_t>(coarse_now()), kept.words[0], kept.words[1],
                           kept.words[2], kept.words[3], kept.words[4]});
}

void FlightRecorder::State::end_call(CUstream handle) noexcept {
  if (RecordedStream* const stream = streams.find(one_handle(handle))) stream->call.retract();
}

CUresult FlightRecorder::State::report(FlightReport& out) const {
  FlightObservation observation;
  const CUresult result = FlightReading(context, streams, signals, graphs).observe(observation);
  if (result != CUDA_SUCCESS) return result;
  if (virtual_time_) static_cast<void>(coarse_now()); // for dump()
  observation.blocked_after = options.blocked_after;
  out = analyse(observation);
  return result;
}

void FlightRecorder::State::dump(int file) const noexcept {
  const int error = errno;
  dump_streams(file, streams,
               virtual_time_ ? latest_time_.load(std::memory_order_relaxed) : coarse_real_now());
  errno = error;
}

}} // namespace cuevent::CUEVENT_ABI
