// SPDX-License-Identifier: MIT
// FlightRecorder: marks in captures, and launches of the graphs.
#include "core/result_of.hpp"
#include "graphs/capturing.hpp"
#include "recording/flight_recorder.hpp"

namespace cuevent {

Status FlightRecorder::State::find_capture(const RecordedStream& stream, std::uint64_t& number,
                                           std::shared_ptr<CapturedMarks>& marks) {
  Capturing capture;
  const Status status = capture_of(stream.context, stream.handle, capture);
  if (!status) return {status.result, "cuStreamGetCaptureInfo"};
  if (capture.id == 0)
    return {CUDA_ERROR_ILLEGAL_STATE, "FlightRecorder::name_capture", Reason::not_capturing};
  return graphs.find_or_add(stream.context, capture, words, number, marks);
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

} // namespace cuevent
