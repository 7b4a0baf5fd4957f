// SPDX-License-Identifier: MIT
#include <cuevent/capture.hpp>
#include <cuevent/error_hook.hpp>

#include "core/capture_state.hpp"
#include "core/on_stream.hpp"
#include "core/result_of.hpp"
#include "core/this_thread.hpp"

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

[[noreturn]] void fail_begin(const Context& context, CUresult result, const char* call) {
  const char* advice = nullptr;
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    advice = "the legacy stream cannot be captured: capture a stream made with CU_STREAM_NON_BLOCKING";
  if (result == CUDA_ERROR_ILLEGAL_STATE)
    advice = "the stream is being captured already, and that capture is still valid: end it first";
  context.driver().fail(result, call, advice);
}

} // namespace

CaptureStatus capture_status(const Context& context, CUstream stream) {
  CaptureState capture{};
  const CUresult result = on_stream(context, stream, [&] {
    capture = capture_state(context.driver().table(), stream);
    return capture.result;
  });
  if (result != CUDA_SUCCESS) context.driver().fail(result, "cuStreamIsCapturing");
  if (!capture.capturing()) return CaptureStatus::none;
  return capture.invalidated() ? CaptureStatus::invalidated : CaptureStatus::active;
}

CUresult try_capture_status(CaptureStatus& out, const Context& context, CUstream stream) noexcept {
  return thrown_by([&] { out = capture_status(context, stream); });
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
  begin(context, stream, mode);
}

StreamCapture::StreamCapture(const Context& context, CUstream stream, Graph& graph,
                             ArrayView<CUgraphNode> after, CaptureMode mode) {
  begin(context, stream, graph, after, mode);
}

CUresult StreamCapture::try_begin(const Context& context, CUstream stream, CaptureMode mode) noexcept {
  if (active_) return CUDA_ERROR_ILLEGAL_STATE;
  return thrown_by([&] { begin(context, stream, mode); });
}

CUresult StreamCapture::try_begin(const Context& context, CUstream stream, Graph& graph,
                                  ArrayView<CUgraphNode> after, CaptureMode mode) noexcept {
  if (active_) return CUDA_ERROR_ILLEGAL_STATE;
  return thrown_by([&] { begin(context, stream, graph, after, mode); });
}

void StreamCapture::begin(const Context& context, CUstream stream, CaptureMode mode) {
  const CUresult result = on_stream(context, stream, [&] {
    return context.driver().table().cuStreamBeginCapture_v10010(stream, driver_mode(mode));
  });
  if (result != CUDA_SUCCESS) fail_begin(context, result, "cuStreamBeginCapture");
  begun(context, stream, nullptr);
}

void StreamCapture::begin(const Context& context, CUstream stream, Graph& graph, ArrayView<CUgraphNode> after,
                          CaptureMode mode) {
  const char* const call = "cuStreamBeginCaptureToGraph";
  if (!graph)
    throw InvalidHandle(
        call, "the graph is empty, because it was moved from or released: use the object that has it now");
  if (graph.context().driver() != context.driver())
    throw ContextMismatch(call, "the graph belongs to another driver: make it with the context's driver");
  const CUresult result = on_stream(context, stream, [&] {
    return context.driver().table().cuStreamBeginCaptureToGraph_v12030(
        stream, graph.native_handle(), after.data(), nullptr, after.size(), driver_mode(mode));
  });
  if (result != CUDA_SUCCESS) fail_begin(context, result, call);
  begun(context, stream, &graph);
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
  if (into_ != nullptr && event) {
    DriverEvent borrowed = DriverEvent::borrow(event.context(), event.native_handle(), event.flags());
    // The graph outlives this capture, however it ends, so it owns the event before it refers to it.
    into_->retain(std::move(event));
    borrowed.record(stream, RecordFlags::external);
    return borrowed;
  }
  kept_.reserve(kept_.size() + 1); // nothing may throw after the event is recorded
  event.record(stream, RecordFlags::external);
  DriverEvent borrowed = DriverEvent::borrow(event.context(), event.native_handle(), event.flags());
  kept_.push_back(std::move(event));
  return borrowed;
}

Graph StreamCapture::end() {
  if (!active_) throw IllegalState("cuStreamEndCapture", "this capture has already ended: begin a new one");
  CUgraph handle = nullptr;
  const CUresult result = end(handle);
  if (result != CUDA_SUCCESS) {
    if (into_ != nullptr && !active_) static_cast<void>(into_->release()); // it may be gone
    context_.driver().fail(result, "cuStreamEndCapture");
  }
  if (into_ != nullptr) return Graph::borrow(context_, handle);
  Graph graph = Graph::from_native_handle(context_, handle);
  for (DriverEvent& event : kept_)
    graph.retain(std::move(event));
  kept_.clear();
  return graph;
}

CUresult StreamCapture::try_record(DriverEvent& borrowed, DriverEvent&& event, CUstream stream) noexcept {
  return thrown_by([&] { borrowed = record(std::move(event), stream); });
}

CUresult StreamCapture::try_end(Graph& out) noexcept {
  return thrown_by([&] { out = end(); });
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
