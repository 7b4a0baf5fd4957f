// SPDX-License-Identifier: MIT
#include "core/failure.hpp"
#include "timing/stage_timer_state.hpp"

#include "core/on_stream.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

/// What is wrong with the options, or null.
const char* wrong_with(const StageTimerOptions& options) noexcept {
  constexpr std::size_t most = 1 << 24; // documented in StageTimerOptions
  if (options.events_per_stream < 2)
    return "events_per_stream is less than 2, but a stage takes two events: use 2 or more";
  if (options.events_per_stream > most)
    return "events_per_stream is more than 2^24, and each stream gets that many events: use fewer";
  if (options.spans > most) return "spans is more than 2^24, and the timer keeps that many: use fewer";
  if (options.side_streams > most)
    return "side_streams is more than 2^24, and the timer makes that many streams: use fewer";
  return nullptr;
}

bool lacks_nvtx(const StageTimerOptions& options) noexcept {
  return options.ranges == StageRanges::nvtx && !NvtxRanges::supported();
}

/// True if it is a success, and false if there was no room for the stage.
bool is_timed(const Context& context, Status status) {
  if (!status && status.result != CUDA_ERROR_NOT_READY) [[unlikely]]
    fail(context, status);
  return static_cast<bool>(status);
}

void check(const Context& context, Status status) {
  if (!status) [[unlikely]]
    fail(context, status);
}

/// Whether the event can be recorded in the stream: in a default stream only an event of the
/// timer's context. For a CUevent, only the driver can tell.
bool can_record(const Context& own, EventRef event, CUstream stream) noexcept {
  return !is_default_stream(stream) || !event.context() ||
         check_context(own, event.context()) == CUDA_SUCCESS;
}

} // namespace

StageTimer::StageTimer() noexcept = default;
StageTimer::StageTimer(StageTimer&&) noexcept = default;
StageTimer& StageTimer::operator=(StageTimer&& other) noexcept {
  StageTimer taken(std::move(other));
  state_.swap(taken.state_);
  return *this;
}
StageTimer::~StageTimer() = default;

StageTimer::StageTimer(const Context& context, const StageTimerOptions& options) {
  if (const char* const wrong = wrong_with(options))
    throw_error(CUDA_ERROR_INVALID_VALUE, "StageTimer", wrong);
  if (lacks_nvtx(options))
    throw_error(CUDA_ERROR_NOT_SUPPORTED, "StageTimer",
                "this cuevent was built without NVTX: build it with a CUDA toolkit that has "
                "nvtx3/nvToolsExt.h next to cuda.h, or use StageRanges::none");
  require_context(context, "StageTimer");
  auto state = std::make_unique<State>(context, options);
  check(context, state->rings->create());
  state_ = std::move(state);
}

CUresult StageTimer::try_create(StageTimer& out, const Context& context,
                                const StageTimerOptions& options) noexcept {
  if (wrong_with(options) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (lacks_nvtx(options)) return CUDA_ERROR_NOT_SUPPORTED;
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return result_of([&] {
    auto state = std::make_unique<State>(context, options);
    const CUresult result = state->rings->create().result;
    if (result != CUDA_SUCCESS) return result;
    StageTimer made;
    made.state_ = std::move(state);
    out = std::move(made);
    return result;
  });
}

StageId StageTimer::stage(std::string_view name) {
  const StageId stage = state().rings->log().stage(name);
  state_->ranges.add(stage, name);
  return stage;
}

StreamId StageTimer::add_stream(StreamRef given, std::string_view name) {
  StageRings& rings = *state().rings;
  CUstream const stream = own_stream(rings.context(), given, "StageTimer::add_stream");
  if (given.context() != nullptr) check(rings.context(), check_home(rings.context(), stream));
  std::uint32_t index = rings.find(stream);
  if (!rings.has(index))
    check(rings.context(), rings.add(stream, name, index));
  else if (!name.empty())
    rings[index].known.name = name;
  return StreamId(index);
}

CUresult StageTimer::try_open(StreamRef stream, StageId stage) noexcept {
  if (const CUresult result = try_check(stream); result != CUDA_SUCCESS) return result;
  return result_of([&] { return state_->request(stream.native_handle(), Request::open, stage).result; });
}

CUresult StageTimer::try_close(StreamRef stream) noexcept {
  if (const CUresult result = try_check(stream); result != CUDA_SUCCESS) return result;
  return result_of([&] { return state_->request(stream.native_handle(), Request::close, StageId{}).result; });
}

CUresult StageTimer::try_next(StreamRef stream, StageId stage) noexcept {
  if (const CUresult result = try_check(stream); result != CUDA_SUCCESS) return result;
  return result_of([&] { return state_->request(stream.native_handle(), Request::next, stage).result; });
}

bool StageTimer::open(StreamRef stream, StageId stage) {
  CUstream const handle = own_stream(context(), stream, "StageTimer::open");
  return is_timed(context(), state_->request(handle, Request::open, stage));
}

void StageTimer::close(StreamRef stream) {
  CUstream const handle = own_stream(context(), stream, "StageTimer::close");
  check(context(), state_->request(handle, Request::close, StageId{}));
}

bool StageTimer::next(StreamRef stream, StageId stage) {
  CUstream const handle = own_stream(context(), stream, "StageTimer::next");
  return is_timed(context(), state_->request(handle, Request::next, stage));
}

void StageTimer::record(EventRef event, StreamRef given, RecordFlags flags) {
  CUstream const stream = own_stream(context(), given, "StageTimer::record");
  if (!can_record(context(), event, stream))
    throw_error(ErrorCause::context_mismatch, "StageTimer::record",
                "the event and the timer's default stream belong to different contexts: "
                "make the event in the timer's context");
  StreamPoint point;
  check(context(), state_->point_of(state_->rings->find(stream), point));
  StageObserver* const observer = state_->observer.get();
  if (observer != nullptr) observer->before_record(event);
  event.record(default_of(context(), stream), flags);
  state_->note_record(event, point, flags);
  if (observer != nullptr) check(context(), observer->recorded(context(), event, stream));
}

void StageTimer::wait(EventRef event, StreamRef given, WaitFlags flags) {
  StageRings& rings = *state().rings;
  CUstream const stream = own_stream(rings.context(), given, "StageTimer::wait");
  AddedStream added(rings);
  std::uint32_t index = 0;
  check(context(), rings.find_or_add(given, index));
  StreamPoint point;
  check(context(), state_->point_of(index, point));
  event.wait({context(), stream}, flags);
  added.keep();
  state_->note_wait(event, point, flags);
  if (state_->observer != nullptr) check(context(), state_->observer->waited(context(), event, stream));
}

CUresult StageTimer::try_record(EventRef event, StreamRef given, RecordFlags flags) noexcept {
  if (const CUresult refused = try_check(given); refused != CUDA_SUCCESS) return refused;
  CUstream const stream = given.native_handle();
  return result_of([&] {
    StreamPoint point;
    if (!can_record(state_->rings->context(), event, stream)) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = state_->point_of(state_->rings->find(stream), point).result;
    if (result != CUDA_SUCCESS) return result;
    StageObserver* const observer = state_->observer.get();
    if (observer != nullptr) observer->before_record(event);
    result = event.try_record(default_of(state_->rings->context(), stream), flags);
    if (result != CUDA_SUCCESS) return result;
    state_->note_record(event, point, flags);
    return observer == nullptr ? result : observer->recorded(state_->rings->context(), event, stream).result;
  });
}

CUresult StageTimer::try_wait(EventRef event, StreamRef given, WaitFlags flags) noexcept {
  if (const CUresult refused = try_check(given); refused != CUDA_SUCCESS) return refused;
  CUstream const stream = given.native_handle();
  return result_of([&] {
    StageRings& rings = *state_->rings;
    AddedStream added(rings);
    std::uint32_t index = 0;
    StreamPoint point;
    CUresult result = rings.find_or_add(given, index).result;
    if (result == CUDA_SUCCESS) result = state_->point_of(index, point).result;
    if (result == CUDA_SUCCESS) result = event.try_wait({rings.context(), stream}, flags);
    if (result != CUDA_SUCCESS) return result;
    added.keep();
    state_->note_wait(event, point, flags);
    StageObserver* const observer = state_->observer.get();
    return observer == nullptr ? result : observer->waited(rings.context(), event, stream).result;
  });
}

CUresult StageTimer::try_check(StreamRef stream) const noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : check_context(state_->rings->context(), stream);
}

std::size_t StageTimer::poll() {
  std::size_t spans = 0;
  state().captures.forget_ended();
  check(context(), state_->rings->poll(spans));
  return spans;
}

CUresult StageTimer::try_poll(std::size_t& spans) noexcept {
  spans = 0;
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  state_->captures.forget_ended();
  return state_->rings->poll(spans).result;
}

std::size_t StageTimer::collect() {
  std::size_t spans = 0;
  state().captures.forget_ended();
  check(context(), state_->rings->collect(spans));
  return spans;
}

CUresult StageTimer::try_collect(std::size_t& spans) noexcept {
  spans = 0;
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  state_->captures.forget_ended();
  return state_->rings->collect(spans).result;
}

void StageTimer::calibrate() { check(context(), state().rings->clock().calibrate()); }

CUresult StageTimer::try_calibrate() noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->rings->clock().calibrate().result;
}

void StageTimer::set_flight_recorder(FlightRecorder* recorder) {
  state().observer = recorder != nullptr ? observer_for(*recorder) : nullptr;
}

StageReport StageTimer::report() const { return state().rings->report(); }

void StageTimer::clear() noexcept {
  if (state_ == nullptr) return;
  state_->rings->log().clear();
  state_->rings->trace().clear_untraced();
}

const Context& StageTimer::context() const { return state().rings->context(); }

StageTimer::State& StageTimer::state() const {
  if (state_ == nullptr)
    throw_error(
        CUDA_ERROR_INVALID_HANDLE, "StageTimer",
        "the timer is empty, because it was default-constructed or moved from: make it with a Context");
  return *state_;
}

}} // namespace cuevent::CUEVENT_ABI
