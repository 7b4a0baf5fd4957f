// SPDX-License-Identifier: MIT
// The rules: plain calls in, findings out. They run in `cuevent watch`, not in the watched process.
#pragma once

#include "rules/contexts.hpp"
#include "rules/objects.hpp"

#include <functional>
#include <unordered_map>
#include <utility>

namespace watch {

/// The state of one process, and what is wrong with its calls.
/// Thread-safety: none; one thread calls it.
class Rules {
public:
  explicit Rules(std::function<void(Finding)> report) : report_(std::move(report)) {}

  /// Takes the next call of the process, in the order of its records.
  void see(const Call& call);

private:
  // Events: event_rules.cpp
  void create_event(const Call& call);
  void destroy_event(const Call& call);
  void record_event(const Call& call, Handle event, const StreamKey& stream, unsigned flags);
  void use_event(const Call& call, Handle event);
  void wait(const Call& call);
  void elapsed(const Call& call);
  bool is_destroyed(const Call& call);
  void take_back(const Call& call);
  void destroy_stream(const Call& call);
  void notice_late_record(const Call& call);
  void end_context(const Call& call, Handle context);
  void take_back_end(Handle context);
  bool is_after_fault(const Call& call);

  // Graphs: graph_rules.cpp
  void see_graph(const Call& call);
  void note_event_in_graph(const Call& call, Handle event);
  void check_events_of(const Call& call, const std::vector<EventNode>& events);
  void forget_in_graphs(Handle event);
  void check_graphs_with(const Call& call, Handle event);

  // Captures: capture_rules.cpp
  void begin_capture(const Call& call);
  void end_capture(const Call& call);
  void add_work(const Call& call, const StreamKey& stream);
  void join_capture(const StreamKey& stream, const EventState& event);
  bool see_capture_error(const Call& call);
  std::vector<std::shared_ptr<Capture>> captures_harmed_by(const Call& call);
  void blame(const Call& call, const std::vector<std::shared_ptr<Capture>>& captures, Rule rule);

  StreamKey key(const Call& call, Handle stream) const;
  /// The stream of a call that has one.
  std::optional<StreamKey> stream_of(const Call& call) const;
  /// Of default streams, the context that was current.
  Handle context_of(const StreamKey& stream);
  void report(Rule rule, const Call& call, std::string sentence, std::vector<Earlier> earlier);

  std::function<void(Finding)> report_;
  std::unordered_map<Handle, EventState> events_;
  std::map<StreamKey, StreamState> streams_;
  std::unordered_map<Handle, GraphState> graphs_;
  std::unordered_map<Handle, ExecState> execs_;
  std::unordered_map<Handle, std::uint64_t> device_of_context_;
  Contexts contexts_;
  std::unordered_map<std::uint32_t, std::uint64_t> mode_of_thread_;
  std::unordered_map<Handle, LateWait> late_waits_; // by event
  std::vector<std::shared_ptr<Capture>> captures_;  // that are not over
  std::optional<Call> capture_error_;               // the last one that harmed no known capture
  std::optional<Call> last_work_;                   // that was submitted
  bool has_fault_ = false;                          // device work has failed
};

/// Adds the call, if it is known.
inline void add(std::vector<Earlier>& earlier, const char* what, const std::optional<Call>& call) {
  if (call) earlier.push_back({what, *call});
}

std::string hexadecimal(Handle handle);
/// "event 0x55d0c0", "stream 0x55d0c0", "the legacy stream of context 0x55d0".
std::string event_text(Handle event);
std::string stream_text(const StreamKey& stream);

} // namespace watch
