// What a StageTimer does when it is asked to: stages, waits and the events between them, into streams and
// captures.
#include "core/on_stream.hpp"
#include "timing/stage_timer.hpp"

#include <algorithm>
#include <utility>

namespace cuevent {

namespace {

constexpr std::size_t most_arrows_to_one = 16;
constexpr auto lossy_query = static_cast<CUresult>(402); // CUDA_ERROR_LOSSY_QUERY, which older headers lack

} // namespace

CapturedStages::OnTrack& CapturedStages::on(std::uint32_t track) {
  const auto found =
      std::find_if(tracks.begin(), tracks.end(), [&](const OnTrack& each) { return each.track == track; });
  return found != tracks.end() ? *found
                               : tracks.emplace_back(OnTrack{.track = track, .open = {}, .arrows = {}});
}

CUresult StageTimer::State::track_of(CUstream stream, std::uint32_t& track) {
  if (last_track_ >= tracks.size() || tracks[last_track_].stream.handle != stream)
    last_track_ = find_track(stream);
  track = static_cast<std::uint32_t>(last_track_);
  return last_track_ < tracks.size() ? CUDA_SUCCESS : add_track(stream, {}, track);
}

std::size_t StageTimer::State::find_track(CUstream stream) const noexcept {
  const auto found = std::find_if(tracks.begin(), tracks.end(),
                                  [&](const Track& each) { return same_stream(each.stream.handle, stream); });
  return static_cast<std::size_t>(found - tracks.begin());
}

CUresult StageTimer::State::add_track(CUstream stream, std::string_view name, std::uint32_t& track) {
  Track added;
  added.stream = {.name = name.empty() ? "stream " + std::to_string(tracks.size()) : std::string(name),
                  .handle = stream};
  const auto used = static_cast<std::size_t>(
      std::count_if(tracks.begin(), tracks.end(), [](const Track& each) { return each.beside != nullptr; }));
  // The per-thread stream is another one on each thread.
  if (used < streams_beside.size() && stream != CU_STREAM_PER_THREAD)
    added.permit = permit_side_stream(context, options.streams_beside);
  if (added.permit) added.beside = streams_beside[used].handle();
  added.ring.resize(options.events_per_stream);
  added.arrows.reserve(most_arrows_to_one);
  CUresult result = CUDA_SUCCESS;
  const ContextGuard guard(context, result);
  if (result != CUDA_SUCCESS) return failed("cuCtxPushCurrent", result);
  for (Boundary& boundary : added.ring) {
    result = DriverEvent::try_create(boundary.event, context, EventFlags::timing);
    if (result != CUDA_SUCCESS) return failed("cuEventCreate", result);
  }
  if (added.beside != nullptr) result = DriverEvent::try_create(added.reached, context);
  if (result != CUDA_SUCCESS) return failed("cuEventCreate", result);
  track = static_cast<std::uint32_t>(tracks.size());
  tracks.push_back(std::move(added));
  return CUDA_SUCCESS;
}

CUresult StageTimer::State::capture_of(CUstream stream, Capturing& capture) noexcept {
  const DriverTable& table = context.driver().table();
  call = "cuCtxPushCurrent"; // by which on_stream may fail
  return on_stream(context, stream, [&] {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = table.cuStreamIsCapturing_v10000(stream, &status);
    if (result != CUDA_SUCCESS) return failed("cuStreamIsCapturing", result);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
    if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
      return failed("StageTimer", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    result =
        table.cuStreamGetCaptureInfo_v11030(stream, &status, &capture.id, &capture.graph, nullptr, nullptr);
    return result == CUDA_SUCCESS ? result : failed("cuStreamGetCaptureInfo", result);
  });
}

CapturedStages* StageTimer::State::captured_in(cuuint64_t capture) noexcept {
  const auto found = std::find_if(captures.begin(), captures.end(), [&](const CapturedStages& each) {
    return each.capture == capture && !each.events->ended();
  });
  return found != captures.end() ? &*found : nullptr;
}

CUresult StageTimer::State::begin_captured(Capturing capture) {
  forget_ended_captures();
  released_by_graphs.collect(); // the events of abandoned captures, which nothing else may ever end
  captures.reserve(captures.size() + 1);
  std::shared_ptr<CaptureEvents> events;
  const CUresult result = CaptureEvents::attach(events, context.driver().table(), capture.graph, call);
  if (result == CUDA_SUCCESS)
    captures.push_back(
        {.capture = capture.id, .events = std::move(events), .nodes = {}, .tracks = {}, .arrows = {}});
  return result;
}

void StageTimer::State::forget_ended_captures() noexcept {
  std::erase_if(captures, [](const CapturedStages& each) { return each.events->ended(); });
}

CUresult StageTimer::State::request(CUstream stream, Request what, StageId stage) {
  if (what != Request::close && static_cast<std::size_t>(stage) >= statistics.size()) [[unlikely]]
    return failed("StageTimer::open", CUDA_ERROR_INVALID_VALUE);
  std::uint32_t track = 0;
  const CUresult result = track_of(stream, track);
  return result == CUDA_SUCCESS ? change(track, what, stage) : result;
}

CUresult StageTimer::State::change(std::uint32_t index, Request what, StageId stage) {
  Track& track = tracks[index];
  Capturing capture;
  CUresult result = capture_of(track.stream.handle, capture);
  if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return result;
  if (capture.id != 0) return change_captured(index, capture, what, stage);

  const bool opens = what != Request::close;
  const bool closes = what != Request::open && !track.open.empty();
  if (what == Request::close && !closes && result == CUDA_SUCCESS)
    return failed("StageTimer::close", CUDA_ERROR_ILLEGAL_STATE);
  const long long now = clock.host_now();
  if (opens) track.reserve_depth();
  if (opens && result == CUDA_SUCCESS && clock.due(now)) {
    std::size_t spans = 0;
    result = poll(spans);
  }

  // From here on the stage that is closed is closed, whatever happens.
  Track::Open ended{stage, false};
  if (closes) {
    ended = track.open.back();
    track.open.pop_back();
    if (ended.timed) --track.timed_open; // its end can have an event
  }
  bool timed = opens && result == CUDA_SUCCESS;
  if (timed) { // one event for the beginning, and one that is kept for the end
    const CUresult room = make_room(track, 2, 2);
    timed = room == CUDA_SUCCESS;
    if (room != CUDA_ERROR_NOT_READY) result = room;
  }
  if (result == CUDA_SUCCESS && (timed || ended.timed)) result = record_boundary(track);
  if (result != CUDA_SUCCESS) {
    if (closes) lose(index, ended.timed, ended.stage);
    if (opens) drop(stage);
    return result;
  }
  if (timed || ended.timed)
    push(index, {ended.timed, timed ? std::optional(stage) : std::nullopt}, now, Boundary::Recorded::by_call);
  if (!opens) return CUDA_SUCCESS;
  track.open.push_back({stage, timed});
  if (timed) {
    ++track.timed_open;
    return CUDA_SUCCESS;
  }
  drop(stage);
  return CUDA_ERROR_NOT_READY;
}

CUresult StageTimer::State::record_boundary(Track& track) noexcept {
  // A timed event between two kernels holds up the second: it is recorded only once the first has left the
  // device, and the second starts only then. An event without timing does not.
  DriverEvent& event = track.at(track.next).event;
  CUresult result = (track.beside == nullptr ? event : track.reached).try_record(track.stream.handle);
  if (result != CUDA_SUCCESS) return failed("cuEventRecord", result);
  if (track.beside == nullptr) return result;
  result = track.reached.try_wait(track.beside);
  if (result != CUDA_SUCCESS) return failed("cuStreamWaitEvent", result);
  result = event.try_record(track.beside);
  return result == CUDA_SUCCESS ? result : failed("cuEventRecord", result);
}

void StageTimer::State::lose(std::uint32_t index, bool timed, StageId stage) noexcept {
  if (!timed) return; // and is counted already
  push(index, {true, std::nullopt}, 0, Boundary::Recorded::no);
  drop(stage);
}

CUresult StageTimer::State::change_captured(std::uint32_t index, Capturing capture, Request what,
                                            StageId stage) {
  CapturedStages* captured = captured_in(capture.id);
  if (what == Request::close && (captured == nullptr || captured->on(index).open.empty()))
    return failed("StageTimer::close", CUDA_ERROR_ILLEGAL_STATE);
  CUresult result = CUDA_SUCCESS;
  if (captured == nullptr) {
    result = begin_captured(capture);
    if (result != CUDA_SUCCESS) return result;
    captured = &captures.back();
  }
  CapturedStages::OnTrack& here = captured->on(index);
  const bool opens = what != Request::close;
  const bool closes = what != Request::open && !here.open.empty();
  here.open.reserve(here.open.size() + 1);
  captured->nodes.reserve(captured->nodes.size() + 1);
  captured->arrows.reserve(captured->arrows.size() + here.arrows.size());

  DriverEvent event;
  result = DriverEvent::try_create(event, context, EventFlags::timing);
  if (result != CUDA_SUCCESS) return failed("cuEventCreate", result);
  // The graph owns the event before it refers to it, and may own it without: nobody knows whether
  // a record that failed has left the graph as it was.
  event = captured->events->keep(std::move(event));
  // If it fails the stage stays as it was: of a capture that has lost a boundary nothing can be timed.
  result = capture_boundary(tracks[index], here, capture.graph, event);
  if (result != CUDA_SUCCESS) return result;

  if (closes) here.open.pop_back();
  if (opens) here.open.push_back(stage);
  here.depth = std::max(here.depth, here.open.size());
  here.last = captured->nodes.size();
  ++here.nodes;
  captured->nodes.push_back({.event = std::move(event),
                             .track = index,
                             .change = {closes, opens ? std::optional(stage) : std::nullopt}});
  for (Arrow& arrow : here.arrows) {
    arrow.to = here.last;
    captured->arrows.push_back(arrow);
  }
  here.arrows.clear();
  return CUDA_SUCCESS;
}

CUresult StageTimer::State::capture_boundary(const Track& track, CapturedStages::OnTrack& here, CUgraph graph,
                                             DriverEvent& event) {
  const DriverTable& table = context.driver().table();
  CUstream const stream = track.stream.handle;
  const CUgraphNode* last = nullptr; // what the next work of the stream will come after
  std::size_t count = 0;
  CUresult result = CUDA_SUCCESS;
  if (track.beside != nullptr)
    result = on_stream(context, stream, [&] {
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      return table.cuStreamGetCaptureInfo_v11030(stream, &status, nullptr, nullptr, &last, &count);
    });
  if (result != CUDA_SUCCESS && result != lossy_query) // nodes alone do not tell it
    return failed("cuStreamGetCaptureInfo", result);
  if (result != CUDA_SUCCESS || count == 0) { // in the stream, then
    here.beside = nullptr;
    result = event.try_record(stream, RecordFlags::external);
    return result == CUDA_SUCCESS ? result : failed("cuEventRecordWithFlags", result);
  }
  // In the stream it would hold up the next work. So it only comes after the same, and after its like.
  std::vector<CUgraphNode> after(last, last + count);
  if (here.beside != nullptr) after.push_back(here.beside);
  CUgraphNode node = nullptr;
  result =
      table.cuGraphAddEventRecordNode_v11010(&node, graph, after.data(), after.size(), event.native_handle());
  if (result != CUDA_SUCCESS) return failed("cuGraphAddEventRecordNode", result);
  here.beside = node;
  return result;
}

void StageTimer::State::push(std::uint32_t index, Change change, long long host,
                             Boundary::Recorded recorded) noexcept {
  Track& track = tracks[index];
  Boundary& boundary = track.at(track.next);
  boundary.change = change;
  boundary.recorded = recorded;
  boundary.host = host;
  boundary.closed = boundary.opened = 0;
  for (Arrow& arrow : track.arrows) {
    arrow.to = track.next;
    remember(arrow);
  }
  track.arrows.clear();
  if (recorded == Boundary::Recorded::by_call) ++track.submitted;
  ++track.next;
}

CUresult StageTimer::State::place_of(CUstream stream, Place& place) {
  CUresult result = track_of(stream, place.track);
  if (result != CUDA_SUCCESS) return result;
  Capturing capture;
  result = capture_of(stream, capture);
  if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return CUDA_SUCCESS; // the driver will say so
  if (result != CUDA_SUCCESS) return result;
  place.capture = capture.id;
  if (capture.id != 0) {
    CapturedStages* const captured = captured_in(capture.id);
    if (captured != nullptr) place.after = captured->on(place.track).last;
  } else if (tracks[place.track].next != 0) {
    place.after = tracks[place.track].next - 1;
  }
  return CUDA_SUCCESS;
}

void StageTimer::State::note_record(const DriverEvent& event, Place place, RecordFlags flags) {
  // An external record in a capture marks nothing that a wait there could be for.
  if (place.capture != 0 && flags != RecordFlags::none) place = {};
  const Noted noted{event.native_handle(), place};
  const auto before = std::find_if(noted_.begin(), noted_.end(),
                                   [&](const Noted& each) { return each.event == noted.event; });
  if (before != noted_.end())
    *before = noted;
  else if (noted_.size() < most_noted)
    noted_.push_back(noted);
  else
    noted_[next_noted_++ % most_noted] = noted;
}

void StageTimer::State::note_wait(const DriverEvent& event, Place place, WaitFlags flags) {
  const auto noted = std::find_if(noted_.begin(), noted_.end(),
                                  [&](const Noted& each) { return each.event == event.native_handle(); });
  bool known = noted != noted_.end() && noted->place.after != no_ticket;
  if (known && place.capture == 0) place.capture = noted->place.capture; // which the wait has just joined
  known = known && place.capture == noted->place.capture &&
          (place.capture == 0 || flags == WaitFlags::none); // an external one joins nothing
  std::vector<Arrow>* arrows = &tracks[place.track].arrows;
  if (known && place.capture != 0) {
    CapturedStages* const captured = captured_in(place.capture);
    arrows = captured == nullptr ? nullptr : &captured->on(place.track).arrows; // null: its graph is gone
  }
  if (known && arrows != nullptr && arrows->size() < most_arrows_to_one)
    arrows->push_back(
        {.from_track = noted->place.track, .from = noted->place.after, .to_track = place.track});
  else
    ++untraced_;
}

void StageTimer::State::remember(const Arrow& arrow) noexcept {
  if (arrows_.size() < arrows_.capacity())
    arrows_.push_back(arrow);
  else
    ++untraced_;
}

} // namespace cuevent
