// SPDX-License-Identifier: MIT
#include <cuevent/capture.hpp>

#include "core/capture_state.hpp"
#include "core/explanation.hpp"
#include "core/failure.hpp"
#include "core/on_stream.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "core/this_thread.hpp"
#include "graphs/require_graph.hpp"

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

CUstreamCaptureMode driver_mode(CaptureMode mode) noexcept {
  switch (mode) {
  case CaptureMode::global:
    return CU_STREAM_CAPTURE_MODE_GLOBAL;
  case CaptureMode::per_thread:
    return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  case CaptureMode::relaxed:
    break;
  }
  return CU_STREAM_CAPTURE_MODE_RELAXED;
}

constexpr const char* begin_capture = "cuStreamBeginCapture";
constexpr const char* begin_in_graph = "cuStreamBeginCaptureToGraph";
constexpr const char* end_capture = "cuStreamEndCapture";
constexpr const char* end_again = "StreamCapture::end";
constexpr const char* record_event = "cuEventRecordWithFlags";
constexpr const char* record_empty = "StreamCapture::record";

[[noreturn]] void fail_active(const char* call) {
  throw_error(CUDA_ERROR_ILLEGAL_STATE, call,
              "this object has a capture that was not ended: end it first, or use another object");
}

const char* advice_to_begin(CUresult result) noexcept {
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    return "the legacy stream cannot be captured: capture a stream made with CU_STREAM_NON_BLOCKING";
  if (result == CUDA_ERROR_ILLEGAL_STATE)
    return "the stream is being captured already, and that capture is still valid: end it first";
  return nullptr;
}

/// `refused` is the call that failed. Returns if it is the one that begins the capture.
void fail_home(CUresult result, const Context& context, const char* refused) {
  const char* const get_context = "cuStreamGetCtx";
  if (result == CUDA_ERROR_INVALID_HANDLE && is_call(refused, get_context))
    throw_error(ErrorCause::context_mismatch, refused, name_its_context);
  if (is_call(refused, get_context) || is_call(refused, "cuCtxGetId")) context.driver().fail(result, refused);
}

} // namespace

CaptureStatus capture_status(const Context& context, CUstream stream) {
  CaptureStatus status{};
  const CUresult result = try_capture_status(status, context, stream);
  if (result != CUDA_SUCCESS) context.driver().fail(result, "cuStreamIsCapturing");
  return status;
}

CUresult try_capture_status(CaptureStatus& out, const Context& context, CUstream stream) noexcept {
  CaptureState capture{};
  const CUresult result = on_stream(context, stream, [&] {
    capture = capture_state(context.driver().table(), stream);
    return capture.result;
  });
  if (result != CUDA_SUCCESS) return result;
  out = capture.invalidated() ? CaptureStatus::invalidated
        : capture.capturing() ? CaptureStatus::active
                              : CaptureStatus::none;
  return result;
}

CaptureModeGuard::CaptureModeGuard(const Driver& driver, CaptureMode mode)
    : driver_(driver), before_(driver_mode(mode)), thread_(this_thread()) {
  const CUresult result = driver.table().cuThreadExchangeStreamCaptureMode_v10010(&before_);
  if (result != CUDA_SUCCESS) driver.fail(result, "cuThreadExchangeStreamCaptureMode");
}

CaptureModeGuard::CaptureModeGuard(const Driver& driver, CUresult& result, CaptureMode mode) noexcept
    : driver_(driver), before_(driver_mode(mode)), thread_(this_thread()) {
  result = driver.table().cuThreadExchangeStreamCaptureMode_v10010(&before_);
  if (result != CUDA_SUCCESS) thread_ = nullptr;
}

CaptureModeGuard::~CaptureModeGuard() {
  if (thread_ == nullptr) return;
  CUresult result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (thread_ == this_thread()) result = driver_.table().cuThreadExchangeStreamCaptureMode_v10010(&before_);
  if (result != CUDA_SUCCESS) report_error(result, "cuThreadExchangeStreamCaptureMode");
}

StreamCapture::StreamCapture(const Context& context, CUstream stream, CaptureMode mode) {
  const CUresult result = try_begin(context, stream, mode);
  if (result != CUDA_SUCCESS) fail_begin(result, context);
}

StreamCapture::StreamCapture(const Context& context, CUstream stream, Graph& graph,
                             ArrayView<CUgraphNode> after, CaptureMode mode) {
  const CUresult result = try_begin(context, stream, graph, after, mode);
  if (result != CUDA_SUCCESS) fail_begin(result, context, graph);
}

CUresult StreamCapture::try_begin(const Context& context, CUstream stream, CaptureMode mode) noexcept {
  if (active_) return CUDA_ERROR_ILLEGAL_STATE;
  if (const Status home = check_home(context, stream); !home) return noted(nullptr, home);
  const CUresult result = on_stream(context, stream, [&] {
    return context.driver().table().cuStreamBeginCapture_v10010(stream, driver_mode(mode));
  });
  if (result == CUDA_SUCCESS) begun(context, stream, nullptr);
  return noted(nullptr, {result, begin_capture});
}

CUresult StreamCapture::try_begin(const Context& context, CUstream stream, Graph& graph,
                                  ArrayView<CUgraphNode> after, CaptureMode mode) noexcept {
  if (active_) return CUDA_ERROR_ILLEGAL_STATE;
  if (!graph || graph.context().driver() != context.driver()) return CUDA_ERROR_INVALID_HANDLE;
  if (const Status home = check_home(context, stream); !home) return noted(nullptr, home);
  const CUresult result = on_stream(context, stream, [&] {
    return context.driver().table().cuStreamBeginCaptureToGraph_v12030(
        stream, graph.native_handle(), after.data(), nullptr, after.size(), driver_mode(mode));
  });
  if (result == CUDA_SUCCESS) begun(context, stream, &graph);
  return noted(nullptr, {result, begin_in_graph});
}

void StreamCapture::fail_begin(CUresult result, const Context& context) const {
  if (active_) fail_active(begin_capture);
  fail_home(result, context, refused_call(nullptr, result, begin_capture));
  context.driver().fail(result, begin_capture, advice_to_begin(result));
}

void StreamCapture::fail_begin(CUresult result, const Context& context, const Graph& graph) const {
  if (active_) fail_active(begin_in_graph);
  require_not_empty(graph, begin_in_graph);
  if (graph.context().driver() != context.driver())
    throw_error(ErrorCause::context_mismatch, begin_in_graph,
                "the graph belongs to another driver: make it with the context's driver");
  fail_home(result, context, refused_call(nullptr, result, begin_in_graph));
  context.driver().fail(result, begin_in_graph, advice_to_begin(result));
}

void StreamCapture::begun(const Context& context, CUstream stream, Graph* into) noexcept {
  context_ = context;
  stream_ = stream;
  into_ = into;
  active_ = true;
  kept_.clear(); // of an earlier capture that could not be ended
}

StreamCapture::~StreamCapture() {
  if (!active_) return;
  CUgraph graph = nullptr;
  const CUresult result = end(graph);
  if (graph != nullptr && into_ == nullptr) {
    const CUresult destroyed = context_.driver().table().cuGraphDestroy_v10000(graph);
    if (destroyed != CUDA_SUCCESS) report_error(destroyed, "cuGraphDestroy");
  }
  if (result != CUDA_SUCCESS && into_ != nullptr)
    static_cast<void>(into_->release()); // it may be gone, or still in use
  // The capture is abandoned, so an invalidated or unjoined capture is not reported.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED &&
      result != CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
    report_error(result, "cuStreamEndCapture");
}

DriverEvent StreamCapture::record(DriverEvent&& event, CUstream stream) {
  DriverEvent borrowed;
  const CUresult result = try_record(borrowed, std::move(event), stream);
  // NOLINTNEXTLINE(bugprone-use-after-move): whether it was moved says what was refused
  if (result != CUDA_SUCCESS) fail_record(result, event, stream);
  return borrowed;
}

CUresult StreamCapture::try_record(DriverEvent& borrowed, DriverEvent&& event, CUstream stream) noexcept {
  if (!event) return noted(this, {CUDA_ERROR_INVALID_HANDLE, record_empty});
  DriverEvent copy = DriverEvent::borrow(event.context(), event.native_handle(), event.flags());
  CUresult result = CUDA_SUCCESS;
  if (into_ != nullptr) {
    // The graph outlives this capture, however it ends, so it owns the event before it refers to it.
    result = into_->try_retain(std::move(event));
    if (result != CUDA_SUCCESS) return result;
    result = copy.try_record(stream, RecordFlags::external);
  } else {
    result = thrown_by([&] { kept_.reserve(kept_.size() + 1); }); // nothing may fail after the record
    if (result == CUDA_SUCCESS) result = event.try_record(stream, RecordFlags::external);
    if (result == CUDA_SUCCESS) kept_.push_back(std::move(event));
  }
  if (result != CUDA_SUCCESS) return noted(this, {result, record_event});
  borrowed = std::move(copy);
  return result;
}

void StreamCapture::fail_record(CUresult result, EventRef event, CUstream stream) const {
  if (event && into_ != nullptr) Explanation::fail_retain(*into_, result, event); // it was not moved
  const char* const call = refused_call(this, result, record_empty);
  if (event || call == record_empty)
    Explanation::fail_record(event, result, StreamRef(stream), RecordFlags::external);
  if (result == CUDA_ERROR_ILLEGAL_STATE)
    throw_error(ErrorCause::external_outside_capture, call,
                "the stream is not being captured, and the graph owns the event now: "
                "pass a stream of this capture, with another event");
  context_.driver().fail(result, call);
}

Graph StreamCapture::end() {
  Graph graph;
  const CUresult result = try_end(graph);
  if (result != CUDA_SUCCESS) fail_end(result);
  return graph;
}

CUresult StreamCapture::try_end(Graph& out) noexcept {
  if (!active_) return noted(this, {CUDA_ERROR_ILLEGAL_STATE, end_again});
  CUgraph handle = nullptr;
  CUresult result = end(handle);
  if (result != CUDA_SUCCESS) {
    if (into_ != nullptr && !active_) static_cast<void>(into_->release()); // it may be gone
    return noted(this, {result, end_capture});
  }
  if (into_ != nullptr) {
    out = Graph::borrow(context_, handle);
    return result;
  }
  Graph graph = Graph::from_native_handle(context_, handle);
  for (DriverEvent& event : kept_) {
    result = graph.try_retain(std::move(event));
    if (result != CUDA_SUCCESS) return noted(this, {result, refused_call(&graph, result, end_capture)});
  }
  kept_.clear();
  out = std::move(graph);
  return result;
}

void StreamCapture::fail_end(CUresult result) const {
  const char* const call = refused_call(this, result, end_capture);
  if (call == end_again)
    throw_error(CUDA_ERROR_ILLEGAL_STATE, call, "this capture has already ended: begin a new one");
  context_.driver().fail(result, call);
}

CUresult StreamCapture::end(CUgraph& graph) noexcept {
  return on_stream(context_, stream_, [&] {
    // Reset only here: without the call, the capture goes on. The call ends the capture, whatever
    // the call returns.
    active_ = false;
    return context_.driver().table().cuStreamEndCapture_v10000(stream_, &graph);
  });
}

}} // namespace cuevent::CUEVENT_ABI
