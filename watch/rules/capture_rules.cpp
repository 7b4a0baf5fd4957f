// SPDX-License-Identifier: MIT
// Which call invalidates whose capture, and what a capture lacks at its end.
#include "rules/rules.hpp"

#include <algorithm>
#include <string_view>

namespace watch {

namespace {

constexpr unsigned mode_global = 0, mode_relaxed = 2; // CUstreamCaptureMode
constexpr unsigned non_blocking = 1;                  // CU_STREAM_NON_BLOCKING

std::string capture_text(const Capture& capture) {
  return "the capture of thread " + std::to_string(capture.begun.thread) + " on " +
         stream_text(capture.origin);
}

} // namespace

void Rules::begin_capture(const Call& call) {
  const auto capture = std::make_shared<Capture>();
  capture->begun = call;
  capture->origin = key(call, call.words[0]);
  capture->mode = static_cast<unsigned>(call.words[call.verb() == Verb::capture_begin ? 1 : 2]);
  capture->clocks[capture->origin];
  streams_[capture->origin].capture = capture;
  captures_.push_back(capture);
  capture_error_.reset();
}

void Rules::add_work(const Call& call, const StreamKey& key) {
  StreamState& stream = streams_[key];
  ++stream.work;
  if (!stream.is_capturing()) return;
  stream.capture->clocks[key][key] = stream.work;
  stream.capture->last_work[key] = call;
}

void Rules::join_capture(const StreamKey& key, const EventState& event) {
  if (!event.capture || event.capture->over) return;
  StreamState& stream = streams_[key];
  if (stream.is_capturing() && stream.capture != event.capture) return;
  stream.capture = event.capture;
  Clock& clock = event.capture->clocks[key];
  for (const auto& [other, work] : event.clock)
    clock[other] = std::max(clock[other], work);
}

void Rules::end_capture(const Call& call) {
  const StreamKey origin = key(call, call.words[0]);
  StreamState& stream = streams_[origin];
  if (call.result == CUDA_ERROR_ILLEGAL_STATE || !stream.is_capturing()) return;
  const auto capture = stream.capture;
  if (call.result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
    return; // of a fork: the capture goes on, invalidated
  capture->over = true;
  std::erase(captures_, capture);
  if (call.succeeded()) {
    see_graph(call);
  } else if (call.result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !capture->invalidated) {
    std::vector<Earlier> earlier{{"the capture began here", capture->begun}};
    if (capture_error_) earlier.push_back({"this call failed before, and may be the cause", *capture_error_});
    report(Rule::capture_invalidated, call,
           capture_text(*capture) + " was invalidated by a call that is not watched", std::move(earlier));
  } else if (call.result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED) {
    bool found = false;
    for (const auto& [other, work] : capture->last_work) {
      const Clock& joined = capture->clocks[origin];
      const auto known = joined.find(other);
      if (other == origin || (known != joined.end() && known->second >= streams_[other].work)) continue;
      found = true;
      report(
          Rule::capture_unjoined, call,
          "the work of " + stream_text(other) + " is not joined to " + stream_text(origin) +
              ", which ends the capture",
          {{"the last node of the branch was added here", work}, {"the capture began here", capture->begun}});
    }
    if (!found)
      report(Rule::capture_unjoined, call,
             "a stream whose work is not watched is not joined to " + stream_text(origin) +
                 ", which ends the capture",
             {{"the capture began here", capture->begun}});
  }
}

std::vector<std::shared_ptr<Capture>> Rules::captures_harmed_by(const Call& call) {
  std::vector<std::shared_ptr<Capture>> harmed;
  const auto add = [&](const std::shared_ptr<Capture>& capture) {
    if (capture && !capture->over && std::find(harmed.begin(), harmed.end(), capture) == harmed.end())
      harmed.push_back(capture);
  };
  const auto stream = stream_of(call);
  if (stream)
    if (const auto found = streams_.find(*stream); found != streams_.end()) add(found->second.capture);
  if (call.result == CUDA_ERROR_STREAM_CAPTURE_MERGE || call.result == CUDA_ERROR_CAPTURED_EVENT) {
    const bool second_word = call.verb() == Verb::stream_wait || call.verb() == Verb::context_wait;
    if (const auto event = events_.find(call.words[second_word ? 1 : 0]); event != events_.end())
      add(event->second.capture);
  }
  if (!harmed.empty()) return harmed;
  if (call.result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    for (const auto& capture : captures_)
      if (const StreamState& origin = streams_[capture->origin];
          (origin.flags & non_blocking) == 0 && (origin.context == 0 || origin.context == call.context))
        add(capture);
    return harmed;
  }
  if (call.verb() == Verb::capture_begin || call.verb() == Verb::capture_into_graph)
    return harmed; // such a stream cannot be captured, and that is all
  // A synchronisation of a context harms the captures of this context, in all modes.
  if (const std::string_view name = entry_data[call.entry].name; name == "cuCtxSynchronize") {
    const Handle context = call.count > 0 && call.words[0] != 0 ? call.words[0] : call.context;
    for (const auto& capture : captures_)
      if (context != 0 && streams_[capture->origin].context == context) add(capture);
    return harmed;
  }
  const auto mode = mode_of_thread_.find(call.thread);
  const bool relaxed = mode != mode_of_thread_.end() && mode->second == mode_relaxed;
  for (const auto& capture : captures_)
    if (!relaxed && capture->mode != mode_relaxed &&
        (capture->mode == mode_global || capture->begun.thread == call.thread))
      add(capture);
  // Other calls of the context may harm captures of all modes too.
  if (harmed.empty())
    for (const auto& capture : captures_)
      if (call.context != 0 && streams_[capture->origin].context == call.context) add(capture);
  return harmed;
}

bool Rules::see_capture_error(const Call& call) {
  switch (call.result) {
  case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
  case CUDA_ERROR_STREAM_CAPTURE_MERGE:
  case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
  case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
  case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
  case CUDA_ERROR_CAPTURED_EVENT:
    break;
  case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: // and the capture is over
    if (call.verb() == Verb::capture_end) {
      blame(call, captures_harmed_by(call), Rule::capture_invalidated);
      end_capture(call);
      return true;
    }
    return false;
  default:
    return false;
  }
  blame(call, captures_harmed_by(call),
        call.result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? Rule::legacy_beside_capture
                                                          : Rule::capture_invalidated);
  return true;
}

void Rules::blame(const Call& call, const std::vector<std::shared_ptr<Capture>>& harmed, Rule rule) {
  if (harmed.empty()) capture_error_ = call;
  for (const auto& capture : harmed) {
    if (capture->invalidated) continue;
    capture->invalidated = true;
    report(rule, call,
           "thread " + std::to_string(call.thread) + " calls " + call.name() + ", which invalidates " +
               capture_text(*capture),
           {{"the capture began here", capture->begun}});
  }
}

} // namespace watch
