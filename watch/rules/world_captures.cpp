// SPDX-License-Identifier: MIT
// Captures: what is in them, and which call invalidates them.
#include "rules/world.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::size_t submissions_kept = 16; // of a capture

} // namespace

bool is_capture_error(const Call& call) {
  switch (call.result) {
  case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
  case CUDA_ERROR_STREAM_CAPTURE_MERGE:
  case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
  case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
  case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
  case CUDA_ERROR_CAPTURED_EVENT:
    return call.returned;
  case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: // and the capture is over
    return call.returned && call.verb() == Verb::capture_end;
  default:
    return false;
  }
}

void World::begin_capture(const Call& call) {
  const auto capture = std::make_shared<Capture>();
  capture->begun = call;
  capture->into_graph = call.verb() == Verb::capture_into_graph;
  capture->number(capture->origin());
  known_stream(call.stream()).capture = capture;
  captures_.push_back(capture);
}

/// A failed end of a fork leaves the capture as it is, invalidated. After other errors nobody ends it.
void World::end_capture(const Call& call) {
  StreamState& stream = known_stream(call.stream());
  if (call.result == CUDA_ERROR_ILLEGAL_STATE || call.result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) return;
  const auto capture = stream.is_capturing() ? stream.capture : nullptr;
  const bool has_graph = call.succeeded() && call.made_graph != 0; // captures of a graphics API have none
  if (has_graph && !(capture && capture->into_graph)) make(graphs_, call.made_graph, call);
  if (has_graph) graphs_[call.made_graph].capture = capture;
  if (capture && call.succeeded()) capture->ended = call;
  if (capture) end_capture(*capture);
}

void World::end_capture(Capture& capture) {
  capture.over = true;
  capture.order = {};
  std::erase_if(captures_, [&](const auto& other) { return other.get() == &capture; });
}

Submission World::submission_of(const Call& call) const {
  const bool is_memory_operation = call.verb() == Verb::value_wait || call.verb() == Verb::value_write;
  if (is_memory_operation) return {call.entry, call.address, call.value};
  if (call.work() == Work::host) return {call.entry, call.address};
  if (call.verb() != Verb::graph_launch) return {call.entry, call.function};
  const ExecState* const replayed = exec(call.exec);
  return {call.entry, 0, call.number, replayed != nullptr ? replayed->capture : nullptr};
}

void World::add_work(const Call& call) {
  StreamState& stream = known_stream(call.stream());
  ++stream.work;
  if (!stream.is_capturing()) return;
  Capture& capture = *stream.capture;
  capture.last_work[call.stream()] = {call, capture.order.submit(capture.number(call.stream()))};
  if (!submits_work(call.verb())) return; // a node for an event
  ++capture.count;
  if (capture.submissions.size() < submissions_kept) capture.submissions.push_back(submission_of(call));
}

void World::join_capture(const StreamKey& key, const EventState& event) {
  if (!event.capture || event.capture->over) return;
  StreamState& stream = known_stream(key);
  if (stream.is_capturing() && stream.capture != event.capture) return;
  stream.capture = event.capture;
  if (event.mark) stream.capture->order.wait(stream.capture->number(key), *event.mark);
}

std::vector<std::shared_ptr<Capture>> World::captures_harmed_by(const Call& call) const {
  constexpr std::uint64_t relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  std::vector<std::shared_ptr<Capture>> harmed;
  if (!is_capture_error(call)) return harmed;
  const auto add = [&](const std::shared_ptr<Capture>& capture) {
    if (capture && !capture->over && std::find(harmed.begin(), harmed.end(), capture) == harmed.end())
      harmed.push_back(capture);
  };
  if (const StreamState* const on = stream(call.stream())) add(on->capture);
  if (call.result == CUDA_ERROR_STREAM_CAPTURE_MERGE || call.result == CUDA_ERROR_CAPTURED_EVENT)
    if (const EventState* const used = event(call.event)) add(used->capture);
  if (!harmed.empty()) return harmed;
  const auto context_of = [&](const Capture& capture) {
    const StreamState* const origin = stream(capture.origin());
    return origin != nullptr ? origin->context : 0;
  };
  if (call.result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    for (const auto& capture : captures_)
      if (const StreamState* const origin = stream(capture->origin());
          origin != nullptr && (origin->flags & CU_STREAM_NON_BLOCKING) == 0 &&
          (origin->context == 0 || origin->context == call.context))
        add(capture);
    return harmed;
  }
  if (call.verb() == Verb::capture_begin || call.verb() == Verb::capture_into_graph)
    return harmed; // such a stream cannot be captured, and that is all
  // A synchronisation of a context harms the captures of this context, in all modes.
  if (call.verb() == Verb::context_synchronize) {
    for (const auto& capture : captures_)
      if (call.named_context != 0 && context_of(*capture) == call.named_context) add(capture);
    return harmed;
  }
  const auto mode = mode_of_thread_.find(call.thread);
  const bool is_relaxed = mode != mode_of_thread_.end() && mode->second == relaxed;
  for (const auto& capture : captures_)
    if (const auto& begun = capture->begun;
        !is_relaxed && begun.mode != relaxed &&
        (begun.mode == CU_STREAM_CAPTURE_MODE_GLOBAL || begun.thread == call.thread))
      add(capture);
  // Other calls of the context may harm captures of all modes too.
  if (harmed.empty())
    for (const auto& capture : captures_)
      if (call.context != 0 && context_of(*capture) == call.context) add(capture);
  return harmed;
}

} // namespace watch
