// SPDX-License-Identifier: MIT
// The part of the interpreter that waits for work to finish, and that cleans up after a program.
// Its driver calls are not part of the program, so they must not change what the program sees: they
// are made in relaxed mode, and no stream or event of a capture is asked.
#include "interpreter.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace conformance {
namespace {

constexpr std::chrono::milliseconds patience{300};

} // namespace

bool Interpreter::lane_pending(CUstream stream, Lane& lane) {
  if (!lane.dirty || held_.submitted(lane) != 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (cu_.StreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE)
    return false;
  lane.dirty = cu_.StreamQuery(stream) == CUDA_ERROR_NOT_READY;
  return lane.dirty;
}

/// Whether a word has not been written yet although all gates before the write are open.
bool Interpreter::write_pending() {
  const auto written = [this](const Write& write) {
    return std::atomic_ref<unsigned>(words_[gate_slots + write.word]).load() != 0;
  };
  std::erase_if(unwritten_, written);
  return std::any_of(unwritten_.begin(), unwritten_.end(),
                     [this](const Write& write) { return held_.closed(write.behind) == 0; });
}

/// Asks all streams, events and words that this thread can name.
bool Interpreter::anything_pending(int thread) {
  bool pending = write_pending();
  if (partner_ && partner_pending()) pending = true;
  for (Stream& stream : streams_)
    if (stream.handle != nullptr && lane_pending(stream.handle, stream.lane)) pending = true;
  for (int context = 0; context < context_slots; ++context) {
    Lane& own = per_thread_[thread][context];
    if (!legacy_[context].dirty && !own.dirty) continue;
    CUcontext popped = nullptr;
    cu_.CtxPushCurrent(contexts_[context]);
    if (lane_pending(CU_STREAM_LEGACY, legacy_[context])) pending = true;
    if (lane_pending(CU_STREAM_PER_THREAD, own)) pending = true;
    cu_.CtxPopCurrent(&popped);
  }
  for (const auto& event : events_) {
    if (!event || !event->dirty || event->captured || held_.closed(event->behind) != 0) continue;
    event->dirty = cu_.EventQuery(event->handle) == CUDA_ERROR_NOT_READY;
    if (event->dirty) pending = true;
  }
  return pending;
}

void Interpreter::settle(int thread) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cu_.ThreadExchangeStreamCaptureMode(&mode);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (anything_pending(thread)) {
    if (std::chrono::steady_clock::now() > deadline) {
      ++timeouts_;
      for (Stream& stream : streams_)
        if (held_.submitted(stream.lane) == 0) stream.lane.dirty = false;
      for (const auto* const events : {events_, partner_events_})
        for (int slot = 0; slot < event_slots; ++slot)
          if (events[slot] && held_.closed(events[slot]->behind) == 0)
            events[slot]->dirty = events[slot]->dirty_there = false;
      for (Lane& lane : partner_lanes_)
        lane.dirty = false;
      std::erase_if(unwritten_, [this](const Write& write) { return held_.closed(write.behind) == 0; });
      for (int context = 0; context < context_slots; ++context)
        legacy_[context].dirty = per_thread_[thread][context].dirty = false;
      break;
    }
    CUcontext current = nullptr;
    cu_.CtxGetCurrent(&current); // in the simulated driver, work progresses only inside calls
    std::this_thread::yield();
  }
  cu_.ThreadExchangeStreamCaptureMode(&mode);
}

void Interpreter::settle_all_threads() {
  for (int thread = 0; thread < thread_slots; ++thread)
    actors_.act(thread, [&] { settle(thread); });
}

/// Ends the captures of the thread's own default streams. Returns whether none is left.
bool Interpreter::end_captures_of(int thread) {
  bool ended = true;
  actors_.act(thread, [&] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    cu_.ThreadExchangeStreamCaptureMode(&mode);
    for (const CUcontext context : contexts_) {
      if (context == nullptr) continue;
      cu_.CtxSetCurrent(context);
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      cu_.StreamIsCapturing(CU_STREAM_PER_THREAD, &status);
      if (status == CU_STREAM_CAPTURE_STATUS_NONE) continue;
      CUgraph graph = nullptr;
      const CUresult result = cu_.StreamEndCapture(CU_STREAM_PER_THREAD, &graph);
      if (graph != nullptr) cu_.GraphDestroy(graph);
      if (result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) ended = false; // a fork: its origin has to end
    }
    cu_.CtxSetCurrent(nullptr);
  });
  return ended;
}

void Interpreter::clean_up() {
  for (int gate = 0; gate < gate_slots; ++gate)
    std::atomic_ref<unsigned>(words_[gate]).store(1);
  if (partner_) partner_("gates");
  const auto end_default_streams = [this] {
    bool ended = true;
    for (int thread = 0; thread < thread_slots; ++thread)
      ended = end_captures_of(thread) && ended;
    return ended;
  };
  end_default_streams();
  for (const Stream& stream : streams_) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream.handle != nullptr) cu_.StreamIsCapturing(stream.handle, &status);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) continue;
    CUgraph graph = nullptr;
    cu_.StreamEndCapture(stream.handle, &graph);
    if (graph != nullptr) cu_.GraphDestroy(graph);
  }
  clean_ = end_default_streams();
  for (const CUcontext context : contexts_) {
    if (context == nullptr) continue;
    cu_.CtxSetCurrent(context);
    if (cu_.CtxSynchronize() != CUDA_SUCCESS) clean_ = false;
  }
  disable_peer_access();
  if (partner_) partner_("end");
  for (auto& event : partner_events_)
    event.reset();
  for (Exec& exec : execs_) {
    if (exec.handle != nullptr) cu_.GraphExecDestroy(exec.handle);
    exec = {};
  }
  for (Graph& graph : graphs_) {
    if (graph.handle != nullptr) cu_.GraphDestroy(graph.handle);
    graph = {};
  }
  nodes_.clear();
  free_memory();
  free_pools_and_libraries();
  for (Stream& stream : streams_) {
    if (stream.handle != nullptr) cu_.StreamDestroy(stream.handle);
    stream = {};
  }
  for (auto& event : events_) {
    if (event) cu_.EventDestroy(event->handle);
    event.reset();
  }
}

} // namespace conformance
