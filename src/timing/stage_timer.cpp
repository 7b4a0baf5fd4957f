#include "timing/stage_timer.hpp"

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

CUresult StageTimer::State::check(const Context& given) const noexcept {
  if (!given) return CUDA_ERROR_INVALID_CONTEXT;
  return given == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult StageTimer::State::check(const DriverEvent& event, CUstream stream) const noexcept {
  return is_default_stream(stream) && event ? check(event.context()) : CUDA_SUCCESS;
}

void StageTimer::State::require(const Context& given, const char* function) const {
  const CUresult result = check(given);
  if (result == CUDA_ERROR_INVALID_CONTEXT)
    throw InvalidContext(function, "the Context is empty: take one from Context::primary()");
  if (result != CUDA_SUCCESS)
    throw ContextMismatch(function, "the context is not the timer's: make a timer for each context");
}

void StageTimer::State::give_back_side_streams() noexcept {
  for (Track& track : tracks)
    track.permit.reset();
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
StageTimer& StageTimer::operator=(StageTimer&& other) noexcept {
  StageTimer taken(std::move(other));
  state_.swap(taken.state_);
  return *this;
}
StageTimer::~StageTimer() {
  if (state_ != nullptr) state_->give_back_side_streams(); // a TimedGraph may keep the rest
}

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
    if (result != CUDA_SUCCESS) return result;
    StageTimer made;
    made.state_ = std::move(state);
    out = std::move(made);
    return result;
  });
}

StageId StageTimer::stage(std::string_view name) { return state().stage(name); }

StreamId StageTimer::add_stream(CUstream stream, std::string_view name) {
  State& here = state();
  auto index = static_cast<std::uint32_t>(here.find_track(stream));
  if (index == here.tracks.size()) {
    const CUresult result = here.add_track(stream, name, index);
    if (result != CUDA_SUCCESS) here.fail(result);
  } else if (!name.empty()) {
    here.tracks[index].stream.name = name;
  }
  return StreamId(index);
}

StreamId StageTimer::add_stream(const Context& context, CUstream stream, std::string_view name) {
  state().require(context, "StageTimer::add_stream");
  return add_stream(stream, name);
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

CUresult StageTimer::try_open(const Context& context, CUstream stream, StageId stage) noexcept {
  const CUresult result = try_check(context);
  return result == CUDA_SUCCESS ? try_open(stream, stage) : result;
}

CUresult StageTimer::try_close(const Context& context, CUstream stream) noexcept {
  const CUresult result = try_check(context);
  return result == CUDA_SUCCESS ? try_close(stream) : result;
}

CUresult StageTimer::try_next(const Context& context, CUstream stream, StageId stage) noexcept {
  const CUresult result = try_check(context);
  return result == CUDA_SUCCESS ? try_next(stream, stage) : result;
}

bool StageTimer::open(const Context& context, CUstream stream, StageId stage) {
  state().require(context, "StageTimer::open");
  return open(stream, stage);
}

void StageTimer::close(const Context& context, CUstream stream) {
  state().require(context, "StageTimer::close");
  close(stream);
}

bool StageTimer::next(const Context& context, CUstream stream, StageId stage) {
  state().require(context, "StageTimer::next");
  return next(stream, stage);
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
  if (state().check(event, stream) != CUDA_SUCCESS)
    throw ContextMismatch("StageTimer::record",
                          "the event is of another context than the timer, whose default stream is meant: "
                          "make the event in the timer's context");
  Place place;
  if (const CUresult result = state_->place_of(stream, place); result != CUDA_SUCCESS) state_->fail(result);
  event.record(stream, flags);
  state_->note_record(event, place, flags);
}

void StageTimer::wait(const DriverEvent& event, CUstream stream, WaitFlags flags) {
  Place place;
  if (const CUresult result = state().place_of(stream, place); result != CUDA_SUCCESS) state_->fail(result);
  event.wait(state_->context, stream, flags);
  state_->note_wait(event, place, flags);
}

CUresult StageTimer::try_record(DriverEvent& event, CUstream stream, RecordFlags flags) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return without_exceptions([&] {
    Place place;
    CUresult result = state_->check(event, stream);
    if (result == CUDA_SUCCESS) result = state_->place_of(stream, place);
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
    if (result == CUDA_SUCCESS) result = event.try_wait(state_->context, stream, flags);
    if (result == CUDA_SUCCESS) state_->note_wait(event, place, flags);
    return result;
  });
}

void StageTimer::record(DriverEvent& event, const Context& context, CUstream stream, RecordFlags flags) {
  state().require(context, "StageTimer::record");
  record(event, stream, flags);
}

void StageTimer::wait(const DriverEvent& event, const Context& context, CUstream stream, WaitFlags flags) {
  state().require(context, "StageTimer::wait");
  wait(event, stream, flags);
}

CUresult StageTimer::try_record(DriverEvent& event, const Context& context, CUstream stream,
                                RecordFlags flags) noexcept {
  const CUresult result = try_check(context);
  return result == CUDA_SUCCESS ? try_record(event, stream, flags) : result;
}

CUresult StageTimer::try_wait(const DriverEvent& event, const Context& context, CUstream stream,
                              WaitFlags flags) noexcept {
  const CUresult result = try_check(context);
  return result == CUDA_SUCCESS ? try_wait(event, stream, flags) : result;
}

CUresult StageTimer::try_check(const Context& context) const noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->check(context);
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
