// SPDX-License-Identifier: MIT
#include "rules/rules.hpp"

#include <cuevent/error.hpp>

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

/// The word that holds a graph that the call uses, or -1.
int graph_word(Verb verb) {
  switch (verb) {
  case Verb::graph_destroy:
    return 0;
  case Verb::graph_clone:
  case Verb::graph_instantiate:
  case Verb::exec_update:
  case Verb::node_add_event:
  case Verb::capture_into_graph:
    return 1;
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
  if (call.returned && call.result != CUDA_SUCCESS) take_back(call);
  if (is_destroyed(call)) return;
  if (!call.returned) {
    if (call.verb() == Verb::graph_instantiate) check_events_of(call, graphs_[call.words[1]].events);
    return;
  }
  if (is_after_fault(call)) return;
  if (see_capture_error(call)) return;
  if (const Handle context = contexts_.ended_by(call); context != 0) end_context(call, context);
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
    use_event(call, words[0]);
    break;
  case Verb::event_synchronize:
    late_waits_.clear(); // the work may be complete now
    use_event(call, words[0]);
    break;
  case Verb::stream_synchronize:
  case Verb::context_synchronize:
    late_waits_.clear();
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
    last_work_ = call;
    add_work(call, *stream_of(call));
    for (unsigned i = 2; call.verb() == Verb::work && i < call.count; ++i)
      record_event(call, words[i], *stream_of(call), 0);
    break;
  case Verb::primary_retain:
  case Verb::context_create:
    if (call.succeeded()) device_of_context_[words[0]] = words[call.count > 1 ? call.count - 1 : 1];
    break;
  case Verb::context_destroy: // recorded before as if it would succeed
    if (!call.succeeded()) take_back_end(words[0]);
    break;
  default:
    see_graph(call);
    break;
  }
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
  const auto tell_of_context = [&](const std::string& what, const std::optional<Call>& created,
                                   const Call& context_end) {
    add(earlier, "it was created here", created);
    earlier.push_back({"its context ended here", context_end});
    report(Rule::use_after_context, call,
           what + " is used after its context was " +
               (context_end.verb() == Verb::device_reset ? "reset" : "destroyed") +
               (call.returned ? "" : ", and the process ended in this call"),
           std::move(earlier));
    return true;
  };
  // A destruction that failed, or did not return, was recorded before as if it would succeed.
  const bool failed_destruction =
      (call.verb() == Verb::event_destroy || call.verb() == Verb::stream_destroy ||
       call.verb() == Verb::exec_destroy || call.verb() == Verb::graph_destroy) &&
      (call.result != CUDA_SUCCESS || !call.returned);
  if (failed_destruction) return false;
  if (const int word = graph_word(call.verb()); word >= 0) {
    const auto graph = graphs_.find(call.words[word]);
    // A child graph, whose handle comes from no watched call, may have the handle and be used rightly.
    if (graph != graphs_.end() && graph->second.destroyed &&
        (call.verb() == Verb::graph_destroy || !call.succeeded()))
      return tell("graph " + hexadecimal(graph->first), graph->second.created, *graph->second.destroyed);
  }
  if (const int word = event_word(call.verb()); word >= 0) {
    for (int i = word; i <= (call.verb() == Verb::event_elapsed ? 1 : word); ++i)
      if (const auto event = events_.find(call.words[i]); event != events_.end() && event->second.destroyed)
        return tell(event_text(event->first), event->second.created, *event->second.destroyed);
      else if (event != events_.end() && event->second.context_end && call.verb() != Verb::event_destroy)
        return tell_of_context(event_text(event->first), event->second.created, *event->second.context_end);
  }
  if (const auto stream = stream_of(call)) {
    const auto found = streams_.find(*stream);
    if (found != streams_.end() && found->second.destroyed)
      return tell(stream_text(*stream), found->second.created, *found->second.destroyed);
    if (found != streams_.end() && found->second.context_end && call.verb() != Verb::stream_destroy)
      return tell_of_context(stream_text(*stream), found->second.created, *found->second.context_end);
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

/// A failed call that tells of failed device work is no mistake of its own: the first one stands for all.
bool Rules::is_after_fault(const Call& call) {
  if (cuevent::kind_of(static_cast<CUresult>(call.result)) != cuevent::ErrorKind::device_fault) return false;
  if (std::exchange(has_fault_, true)) return true;
  std::vector<Earlier> earlier;
  add(earlier, "the last work before that was submitted here", last_work_);
  report(Rule::device_fault, call, "device work has failed, and this is the first call that tells",
         std::move(earlier));
  return true;
}

/// The call, or what it would use, was recorded before as if it would succeed, but it has failed.
void Rules::take_back(const Call& call) {
  if (call.verb() == Verb::event_destroy) {
    if (const auto event = events_.find(call.words[0]); event != events_.end())
      event->second.destroyed.reset();
  } else if (call.verb() == Verb::stream_destroy) {
    if (const auto stream = streams_.find(key(call, call.words[0])); stream != streams_.end())
      stream->second.destroyed.reset();
  } else if (call.verb() == Verb::exec_destroy) {
    if (const auto exec = execs_.find(call.words[0]); exec != execs_.end()) exec->second.destroyed.reset();
  } else if (call.verb() == Verb::graph_destroy) {
    if (const auto graph = graphs_.find(call.words[0]); graph != graphs_.end())
      graph->second.destroyed.reset();
  } else if (call.verb() == Verb::graph_instantiate || call.verb() == Verb::exec_update) {
    graphs_[call.words[1]].events.clear();
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

/// Its objects are gone. The driver does not know a later use of an event or stream for what it is, if
/// another context has the handle then. Programs often destroy them later, which does no harm.
void Rules::end_context(const Call& call, Handle context) {
  for (auto& [handle, event] : events_) {
    if (event.context != context || event.destroyed || event.context_end) continue;
    if (event.put_in_graph) forget_in_graphs(handle);
    event.context_end = call;
  }
  for (auto& [key, stream] : streams_) {
    if (stream.context != context && key.context != context) continue;
    if (const auto& capture = stream.capture; capture && capture->origin == key) {
      capture->over = true;
      std::erase(captures_, capture);
    }
    if (!stream.destroyed && !stream.context_end) stream.context_end = call;
  }
  // A new context with this handle has default streams too.
  std::erase_if(streams_, [&](const auto& stream) { return stream.first.context == context; });
}

void Rules::take_back_end(Handle context) {
  for (auto& [handle, event] : events_)
    if (event.context == context) event.context_end.reset();
  for (auto& [key, stream] : streams_)
    if (stream.context == context) stream.context_end.reset();
}

} // namespace watch
