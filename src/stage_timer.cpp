#include "stage_timer.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

namespace cuevent {

namespace {

constexpr std::size_t fewest_events = 2; // the beginning and the end of a stage

/// For the twins: what allocates may throw, std::length_error too.
template <class Work>
CUresult without_exceptions(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::exception&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

/// Then a stream that waits would hold up most others. The driver's own number is eight.
bool has_few_connections() noexcept {
  const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections != nullptr && std::atoi(connections) < 8;
}

} // namespace

StageTimer::State::State(const Context& owner, const StageTimerOptions& wanted)
    : context(owner), options(wanted), spans_(wanted.spans), waits_(wanted.spans) {
  noted_.reserve(most_noted);
  arrows_.reserve(wanted.spans);
}

CUresult StageTimer::State::create() {
  if (!has_few_connections()) streams_beside.resize(options.streams_beside);
  CUresult result = CUDA_SUCCESS;
  {
    const ContextGuard guard(context, result);
    if (result != CUDA_SUCCESS) return failed("cuCtxPushCurrent", result);
    for (TimerStream& stream : streams_beside)
      if (result = stream.create(context); result != CUDA_SUCCESS) return failed("cuStreamCreate", result);
  }
  return failed_in_clock(clock.create(context));
}

StageId StageTimer::State::stage(std::string_view name) {
  const auto found = std::find_if(statistics.begin(), statistics.end(),
                                  [&](const Statistics& each) { return each.name == name; });
  const auto index = static_cast<std::uint32_t>(found - statistics.begin());
  if (found == statistics.end()) statistics.push_back({.name = std::string(name)});
  return StageId(index);
}

void StageTimer::State::fail(CUresult result) const {
  const std::string_view function = call;
  if (result == CUDA_ERROR_ILLEGAL_STATE && function == "StageTimer::close")
    throw IllegalState(call, "no stage is open on the stream, or none that was opened in this capture");
  if (result == CUDA_ERROR_INVALID_VALUE && function == "StageTimer::open")
    throw InvalidValue(call, "the timer has no such stage: ask it for one by stage()");
  if (result == CUDA_ERROR_INVALID_HANDLE && function.starts_with("cuEventRecord"))
    throw ContextMismatch(call, "the stream is of another context than the timer: make a timer for each");
  context.driver().fail(result, call);
}

StageTimer::StageTimer() noexcept = default;
StageTimer::StageTimer(StageTimer&&) noexcept = default;
StageTimer& StageTimer::operator=(StageTimer&&) noexcept = default;
StageTimer::~StageTimer() = default;

StageTimer::StageTimer(const Context& context, const StageTimerOptions& options) {
  if (options.events_per_stream < fewest_events)
    throw InvalidValue("StageTimer", "a stage takes two events: events_per_stream has to be 2 or more");
  if (!context) throw InvalidContext("StageTimer", "the Context is empty: take one from Context::primary()");
  const auto state = std::make_shared<State>(context, options);
  if (const CUresult result = state->create(); result != CUDA_SUCCESS) state->fail(result);
  state_ = state;
}

CUresult StageTimer::try_create(StageTimer& out, const Context& context,
                                const StageTimerOptions& options) noexcept {
  if (options.events_per_stream < fewest_events) return CUDA_ERROR_INVALID_VALUE;
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return without_exceptions([&] {
    auto state = std::make_shared<State>(context, options);
    const CUresult result = state->create();
    if (result == CUDA_SUCCESS) out.state_ = std::move(state);
    return result;
  });
}

StageId StageTimer::stage(std::string_view name) { return state().stage(name); }

StreamId StageTimer::add_stream(CUstream stream, std::string_view name) {
  State& here = state();
  const auto found = std::find_if(here.tracks.begin(), here.tracks.end(),
                                  [&](const Track& track) { return track.stream.handle == stream; });
  auto index = static_cast<std::uint32_t>(found - here.tracks.begin());
  if (found == here.tracks.end()) {
    const CUresult result = here.add_track(stream, name, index);
    if (result != CUDA_SUCCESS) here.fail(result);
  } else if (!name.empty()) {
    found->stream.name = name;
  }
  return StreamId(index);
}

CUresult StageTimer::try_open(CUstream stream, StageId stage) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return without_exceptions([&] { return state_->request(stream, Request::open, stage); });
}

CUresult StageTimer::try_close(CUstream stream) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return without_exceptions([&] { return state_->request(stream, Request::close, StageId{}); });
}

CUresult StageTimer::try_next(CUstream stream, StageId stage) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return without_exceptions([&] { return state_->request(stream, Request::next, stage); });
}

bool StageTimer::open(CUstream stream, StageId stage) {
  const CUresult result = state().request(stream, Request::open, stage);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) [[unlikely]]
    state_->fail(result);
  return result == CUDA_SUCCESS;
}

void StageTimer::close(CUstream stream) {
  const CUresult result = state().request(stream, Request::close, StageId{});
  if (result != CUDA_SUCCESS) [[unlikely]]
    state_->fail(result);
}

bool StageTimer::next(CUstream stream, StageId stage) {
  const CUresult result = state().request(stream, Request::next, stage);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) [[unlikely]]
    state_->fail(result);
  return result == CUDA_SUCCESS;
}

void StageTimer::record(DriverEvent& event, CUstream stream, RecordFlags flags) {
  Place place;
  if (const CUresult result = state().place_of(stream, place); result != CUDA_SUCCESS) state_->fail(result);
  event.record(stream, flags);
  state_->note_record(event, place, flags);
}

void StageTimer::wait(const DriverEvent& event, CUstream stream, WaitFlags flags) {
  Place place;
  if (const CUresult result = state().place_of(stream, place); result != CUDA_SUCCESS) state_->fail(result);
  event.wait(stream, flags);
  state_->note_wait(event, place, flags);
}

CUresult StageTimer::try_record(DriverEvent& event, CUstream stream, RecordFlags flags) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return without_exceptions([&] {
    Place place;
    CUresult result = state_->place_of(stream, place);
    if (result == CUDA_SUCCESS) result = event.try_record(stream, flags);
    if (result == CUDA_SUCCESS) state_->note_record(event, place, flags);
    return result;
  });
}

CUresult StageTimer::try_wait(const DriverEvent& event, CUstream stream, WaitFlags flags) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return without_exceptions([&] {
    Place place;
    CUresult result = state_->place_of(stream, place);
    if (result == CUDA_SUCCESS) result = event.try_wait(stream, flags);
    if (result == CUDA_SUCCESS) state_->note_wait(event, place, flags);
    return result;
  });
}

std::size_t StageTimer::poll() {
  std::size_t spans = 0;
  if (const CUresult result = state().poll(spans); result != CUDA_SUCCESS) state_->fail(result);
  return spans;
}

CUresult StageTimer::try_poll(std::size_t& spans) noexcept {
  spans = 0;
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->poll(spans);
}

std::size_t StageTimer::collect() {
  std::size_t spans = 0;
  if (const CUresult result = state().collect(spans); result != CUDA_SUCCESS) state_->fail(result);
  return spans;
}

CUresult StageTimer::try_collect(std::size_t& spans) noexcept {
  spans = 0;
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->collect(spans);
}

void StageTimer::calibrate() {
  if (const CUresult result = state().calibrate(); result != CUDA_SUCCESS) state_->fail(result);
}

CUresult StageTimer::try_calibrate() noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->calibrate();
}

StageReport StageTimer::report() const { return state().report(); }

void StageTimer::clear() noexcept {
  if (state_ != nullptr) state_->clear();
}

const Context& StageTimer::context() const { return state().context; }

StageTimer::State& StageTimer::state() const {
  if (state_ == nullptr)
    throw InvalidHandle("StageTimer", "the timer is empty: it was default-made or moved from");
  return *state_;
}

} // namespace cuevent
