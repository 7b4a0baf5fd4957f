// SPDX-License-Identifier: MIT
#include "rules/rules.hpp"

#include <cstdio>

namespace watch {

namespace {

/// The word that holds an event of this call, or -1.
int event_word(Verb verb) {
  switch (verb) {
  case Verb::event_record:
  case Verb::event_query:
  case Verb::event_synchronize:
  case Verb::event_elapsed:
  case Verb::event_export:
  case Verb::event_destroy:
    return 0;
  case Verb::context_record:
  case Verb::stream_wait:
  case Verb::context_wait:
  case Verb::node_set_event:
    return 1;
  case Verb::node_add_event:
  case Verb::exec_set_event:
    return 2;
  default:
    return -1;
  }
}

int stream_word(Verb verb) {
  switch (verb) {
  case Verb::stream_wait:
  case Verb::stream_destroy:
  case Verb::stream_query:
  case Verb::stream_synchronize:
  case Verb::capture_begin:
  case Verb::capture_into_graph:
  case Verb::capture_end:
  case Verb::work:
  case Verb::value_wait:
  case Verb::value_write:
    return 0;
  case Verb::event_record:
  case Verb::graph_launch:
    return 1;
  default:
    return -1;
  }
}

} // namespace

std::string hexadecimal(Handle handle) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(handle));
  return text;
}

std::string event_text(Handle event) { return "event " + hexadecimal(event); }

std::string stream_text(const StreamKey& stream) {
  if (stream.handle == 1) return "the legacy stream of context " + hexadecimal(stream.context);
  if (stream.handle == 2) return "the per-thread stream of context " + hexadecimal(stream.context);
  return "stream " + hexadecimal(stream.handle);
}

void Rules::report(Rule rule, const Call& call, std::string sentence, std::vector<Earlier> earlier) {
  report_({rule, std::move(sentence), call, std::move(earlier)});
}

StreamKey Rules::key(const Call& call, Handle stream) const {
  return key_of(stream, call.context, call.thread);
}

std::optional<StreamKey> Rules::stream_of(const Call& call) const {
  const int word = stream_word(call.verb());
  if (word < 0 || word >= call.count) return std::nullopt;
  return key(call, call.words[word]);
}

Handle Rules::context_of(const StreamKey& stream) {
  if (stream.handle <= 2) return stream.context;
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second.context;
}

void Rules::see(const Call& call) {
  if (call.returned && call.result != CUDA_SUCCESS) take_back_destruction(call);
  if (is_destroyed(call) || !call.returned) return;
  if (see_capture_error(call)) {
    late_waits_.erase(call.thread);
    return;
  }
  const auto words = call.words;
  switch (call.verb()) {
  case Verb::event_create:
  case Verb::event_open:
    create_event(call);
    break;
  case Verb::event_destroy:
    destroy_event(call);
    break;
  case Verb::event_record:
    notice_late_record(call);
    record_event(call, words[0], key(call, words[1]), call.count > 2 ? static_cast<unsigned>(words[2]) : 0);
    break;
  case Verb::context_record:
    if (call.succeeded()) record_event(call, words[1], {}, 0);
    break;
  case Verb::event_query:
  case Verb::event_synchronize:
    use_event(call, words[0]);
    break;
  case Verb::event_elapsed:
    elapsed(call);
    break;
  case Verb::event_export:
    if (call.succeeded()) events_[words[0]].shared = true;
    break;
  case Verb::stream_wait:
  case Verb::context_wait:
    wait(call);
    break;
  case Verb::stream_create:
  case Verb::stream_create_green:
    if (call.succeeded()) {
      StreamState& made = streams_[key(call, words[0])] = {};
      made.created = call;
      made.flags = static_cast<unsigned>(words[1]);
      made.context = call.verb() == Verb::stream_create ? call.context : 0;
    }
    break;
  case Verb::stream_destroy:
    destroy_stream(call);
    break;
  case Verb::capture_begin:
  case Verb::capture_into_graph:
    if (call.succeeded()) begin_capture(call);
    break;
  case Verb::capture_end:
    end_capture(call);
    break;
  case Verb::exchange_mode:
    if (call.succeeded()) mode_of_thread_[call.thread] = words[0];
    break;
  case Verb::work:
  case Verb::value_wait:
  case Verb::value_write:
  case Verb::graph_launch:
    if (!call.succeeded()) break;
    add_work(call, *stream_of(call));
    for (unsigned i = 2; call.verb() == Verb::work && i < call.count; ++i)
      record_event(call, words[i], *stream_of(call), 0);
    break;
  case Verb::primary_retain:
    if (call.succeeded()) ++retained_[words[1]];
    [[fallthrough]];
  case Verb::context_create:
    if (call.succeeded()) device_of_context_[words[0]] = words[call.count > 1 ? call.count - 1 : 1];
    break;
  case Verb::context_destroy:
    forget_context(words[0]);
    break;
  case Verb::primary_release: // the last release ends the context
    if (auto& count = retained_[words[0]]; call.succeeded() && (count == 0 || --count == 0))
      forget_device(words[0]);
    break;
  case Verb::device_reset:
    if (call.succeeded()) forget_device(words[0]);
    break;
  default:
    see_graph(call);
    break;
  }
  const auto waiting = late_waits_.find(call.thread);
  if (waiting != late_waits_.end() && call.verb() != Verb::stream_wait && call.verb() != Verb::exchange_mode)
    late_waits_.erase(waiting);
}

bool Rules::is_destroyed(const Call& call) {
  std::vector<Earlier> earlier;
  const auto tell = [&](const std::string& what, const std::optional<Call>& created, const Call& destroyed) {
    add(earlier, "it was created here", created);
    earlier.push_back({"it was destroyed here", destroyed});
    report(Rule::use_after_destroy, call,
           what + " is used after it was destroyed" +
               (call.returned ? "" : ", and the process ended in this call"),
           std::move(earlier));
    return true;
  };
  // A destruction that failed, or did not return, was recorded before as if it would succeed.
  const bool failed_destruction =
      (call.verb() == Verb::event_destroy || call.verb() == Verb::stream_destroy ||
       call.verb() == Verb::exec_destroy) &&
      (call.result != CUDA_SUCCESS || !call.returned);
  if (failed_destruction) return false;
  if (const int word = event_word(call.verb()); word >= 0) {
    for (int i = word; i <= (call.verb() == Verb::event_elapsed ? 1 : word); ++i)
      if (const auto event = events_.find(call.words[i]); event != events_.end() && event->second.destroyed)
        return tell(event_text(event->first), event->second.created, *event->second.destroyed);
  }
  if (const auto stream = stream_of(call)) {
    const auto found = streams_.find(*stream);
    if (found != streams_.end() && found->second.destroyed)
      return tell(stream_text(*stream), found->second.created, *found->second.destroyed);
  }
  if (call.verb() == Verb::graph_launch || call.verb() == Verb::exec_destroy ||
      call.verb() == Verb::exec_update || call.verb() == Verb::exec_set_event) {
    const auto exec = execs_.find(call.words[0]);
    if (exec != execs_.end() && exec->second.destroyed)
      return tell("executable graph " + hexadecimal(exec->first), exec->second.created,
                  *exec->second.destroyed);
  }
  return false;
}

/// The call was recorded before as if it would succeed, but it has failed.
void Rules::take_back_destruction(const Call& call) {
  if (call.verb() == Verb::event_destroy) {
    if (const auto event = events_.find(call.words[0]); event != events_.end())
      event->second.destroyed.reset();
  } else if (call.verb() == Verb::stream_destroy) {
    if (const auto stream = streams_.find(key(call, call.words[0])); stream != streams_.end())
      stream->second.destroyed.reset();
  } else if (call.verb() == Verb::exec_destroy) {
    if (const auto exec = execs_.find(call.words[0]); exec != execs_.end()) exec->second.destroyed.reset();
  }
}

void Rules::destroy_stream(const Call& call) {
  if (call.result != CUDA_SUCCESS) return;
  StreamState& stream = streams_[key(call, call.words[0])];
  stream.destroyed = call;
  if (!stream.is_capturing() || stream.capture->origin != key(call, call.words[0])) return;
  stream.capture->over = true; // and nobody will end it
  std::erase(captures_, stream.capture);
}

void Rules::forget_device(std::uint64_t wanted) {
  std::vector<Handle> gone;
  for (const auto& [context, device] : device_of_context_)
    if (device == wanted) gone.push_back(context);
  for (const Handle context : gone)
    forget_context(context);
}

/// Its objects are gone, or at least no longer known.
void Rules::forget_context(Handle context) {
  std::erase_if(events_, [&](const auto& event) {
    if (event.second.context != context) return false;
    if (event.second.recorded_by_graph) forget_in_graphs(event.first);
    return true;
  });
  std::erase_if(streams_, [&](const auto& stream) {
    if (stream.second.context != context && stream.first.context != context) return false;
    if (const auto& capture = stream.second.capture; capture && capture->origin == stream.first) {
      capture->over = true;
      std::erase(captures_, capture);
    }
    return true;
  });
}

} // namespace watch
