// SPDX-License-Identifier: MIT
#include "core/failure.hpp"
#include "recording/flight_recorder_state.hpp"

#include "core/on_stream.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "recording/flight_analysis.hpp"

#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include <string_view>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

void require(const Context& own, Status status) {
  if (status) [[likely]]
    return;
  if (status.reason == Reason::other_context)
    throw_error(ErrorCause::context_mismatch, status.call,
                "the stream does not belong to the context that was named for it, or it is a "
                "default stream of another context than the recorder's: name the context of the "
                "stream, or none, and give default streams of the recorder's context only");
  if (status.reason == Reason::not_capturing)
    throw_error(CUDA_ERROR_ILLEGAL_STATE, status.call,
                "the stream is not being captured: begin the capture first");
  if (status.reason == Reason::no_such_graph)
    throw_error(CUDA_ERROR_INVALID_VALUE, status.call,
                "the recorder has no such graph, or the graph has ended: use the number that "
                "name_capture() returned, while the graph exists");
  own.driver().fail(status.result, status.call);
}

} // namespace

namespace {

constexpr std::size_t most_marks = 1 << 24; // documented in FlightRecorderOptions

} // namespace

FlightRecorder::FlightRecorder() noexcept = default;
FlightRecorder::FlightRecorder(FlightRecorder&&) noexcept = default;
FlightRecorder& FlightRecorder::operator=(FlightRecorder&& other) noexcept {
  FlightRecorder taken(std::move(other));
  state_.swap(taken.state_);
  return *this;
}
FlightRecorder::~FlightRecorder() {
  // A forked child cannot destroy what a thread of its parent was changing at the fork.
  if (state_ != nullptr && !state_->is_whole()) static_cast<void>(state_.release());
}

FlightRecorder::FlightRecorder(const Context& context, const FlightRecorderOptions& options) {
  require_context(context, "FlightRecorder");
  if (options.marks_per_stream == 0)
    throw_error(CUDA_ERROR_INVALID_VALUE, "FlightRecorder",
                "marks_per_stream is 0, but each mark takes an event: use 64 or more");
  if (options.marks_per_stream > most_marks)
    throw_error(CUDA_ERROR_INVALID_VALUE, "FlightRecorder",
                "marks_per_stream is more than 2^24, and each stream gets that many events: use fewer");
  auto state = std::make_unique<State>(context, options);
  require(context, state->create());
  state_ = std::move(state);
}

CUresult FlightRecorder::try_create(FlightRecorder& out, const Context& context,
                                    const FlightRecorderOptions& options) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (options.marks_per_stream == 0 || options.marks_per_stream > most_marks) return CUDA_ERROR_INVALID_VALUE;
  return result_of([&] {
    auto state = std::make_unique<State>(context, options);
    const CUresult result = state->create().result;
    if (result != CUDA_SUCCESS) return result;
    FlightRecorder made;
    made.state_ = std::move(state);
    out = std::move(made);
    return result;
  });
}

void FlightRecorder::add_stream(StreamRef stream, std::string_view name) {
  if (stream.context() != nullptr) require_context(*stream.context(), "FlightRecorder::add_stream");
  require(state().context, state().add(stream, name));
}

CUresult FlightRecorder::try_add_stream(StreamRef stream, std::string_view name) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream.context() != nullptr && !*stream.context()) return CUDA_ERROR_INVALID_CONTEXT;
  return state_->add(stream, name).result;
}

void FlightRecorder::mark(CUstream stream, std::string_view name) {
  require(state().context, state().mark(stream, name));
}

CUresult FlightRecorder::try_mark(CUstream stream, std::string_view name) noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->mark(stream, name).result;
}

void FlightRecorder::record(EventRef event, CUstream stream, RecordFlags flags) {
  RecordedStream* known = nullptr;
  require(state().context, state().find_or_add(stream, known));
  state_->events.forget(event.native_handle());
  event.record(default_of(known->context, stream), flags);
  require(state().context, state().note_record(event, *known));
}

void FlightRecorder::wait(EventRef event, CUstream stream, WaitFlags flags) {
  RecordedStream* known = nullptr;
  require(state().context, state().find_or_add(stream, known));
  event.wait(default_of(known->context, stream), flags);
  require(state().context, state().note_wait(event, *known));
}

CUresult FlightRecorder::try_record(EventRef event, CUstream stream, RecordFlags flags) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  RecordedStream* known = nullptr;
  if (const Status status = state_->find_or_add(stream, known); !status) return status.result;
  state_->events.forget(event.native_handle());
  const CUresult result = event.try_record(default_of(known->context, stream), flags);
  return result == CUDA_SUCCESS ? state_->note_record(event, *known).result : result;
}

CUresult FlightRecorder::try_wait(EventRef event, CUstream stream, WaitFlags flags) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  RecordedStream* known = nullptr;
  if (const Status status = state_->find_or_add(stream, known); !status) return status.result;
  const CUresult result = event.try_wait(default_of(known->context, stream), flags);
  return result == CUDA_SUCCESS ? state_->note_wait(event, *known).result : result;
}

FlightGraph FlightRecorder::name_capture(CUstream stream, std::string_view name) {
  FlightGraph graph{};
  require(state().context, state().name_capture(stream, name, graph));
  return graph;
}

CUresult FlightRecorder::try_name_capture(FlightGraph& out, CUstream stream, std::string_view name) noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->name_capture(stream, name, out).result;
}

void FlightRecorder::launched(CUstream stream, FlightGraph graph) {
  require(state().context, state().launched(stream, graph));
}

CUresult FlightRecorder::try_launched(CUstream stream, FlightGraph graph) noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->launched(stream, graph).result;
}

void FlightRecorder::launch(GraphExec& exec, CUstream stream, FlightGraph graph) {
  require(state().context, state_->graphs.look_up(static_cast<std::uint64_t>(graph)));
  const struct Call {
    Call(State& its_state, CUstream its_stream) noexcept : state(its_state), stream(its_stream) {
      state.begin_call(stream, "cuGraphLaunch");
    }
    ~Call() { state.end_call(stream); }
    State& state;
    CUstream stream;
  } call(*state_, stream);
  exec.launch(stream);
  require(state_->context, state_->launched(stream, graph)); // it too can block
}

void FlightRecorder::note_signal(CUstream stream, const void* object, std::uint64_t value) {
  require(state().context, state().note_signal(stream, object, value));
}

void FlightRecorder::note_wait(CUstream stream, const void* object, std::uint64_t value,
                               std::string_view name) {
  require(state().context, state().note_wait(stream, object, value, name));
}

CUresult FlightRecorder::try_note_signal(CUstream stream, const void* object, std::uint64_t value) noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : state_->note_signal(stream, object, value).result;
}

CUresult FlightRecorder::try_note_wait(CUstream stream, const void* object, std::uint64_t value,
                                       std::string_view name) noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE
                           : state_->note_wait(stream, object, value, name).result;
}

FlightReport FlightRecorder::report() const {
  FlightReport report;
  const CUresult result = state().report(report);
  if (result != CUDA_SUCCESS) state_->context.driver().fail(result, "FlightRecorder::report");
  return report;
}

CUresult FlightRecorder::try_report(FlightReport& out) const noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return result_of([&] { return state_->report(out); });
}

void FlightRecorder::dump(int file) const noexcept {
  if (state_ != nullptr) state_->dump(file);
}

void FlightRecorder::begin_call(CUstream stream, std::string_view name) noexcept {
  if (state_ != nullptr) state_->begin_call(stream, name);
}

void FlightRecorder::end_call(CUstream stream, std::string_view name) noexcept {
  if (state_ == nullptr) return;
  const Status status = state_->mark(stream, name); // it too can block
  state_->end_call(stream);
  if (!status) report_error(status.result, status.call);
}

const Context& FlightRecorder::context() const { return state().context; }

FlightRecorder::State& FlightRecorder::state() const {
  if (state_ == nullptr)
    throw_error(CUDA_ERROR_INVALID_HANDLE, "FlightRecorder",
                "the recorder is empty, because it was default-constructed or moved from: make it with "
                "a Context");
  return *state_;
}

}} // namespace cuevent::CUEVENT_ABI
