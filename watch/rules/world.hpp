// SPDX-License-Identifier: MIT
// The state of one process: its contexts, streams, events, graphs and captures, as its calls tell.
#pragma once

#include "rules/objects.hpp"
#include "rules/observer.hpp"
#include "rules/stream_order.hpp"

#include <deque>
#include <unordered_map>
#include <utility>

namespace watch {

/// Each call changes it once. Its observers see the call before and after that.
/// Thread-safety: none; one thread calls it.
class World {
public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void add(std::shared_ptr<Observer> observer) {
    if (const OrderEffects* const effects = observer->effects()) effects_ = effects;
    observers_.push_back(std::move(observer));
  }

  /// Takes the next call of the process, in the order of its records.
  void see(const Call& call);

  /// There are no more calls.
  void end(bool by_itself);

  // Null for an object that no call has named. An object that is gone stays until its handle is used again,
  // or until many others are gone.
  const EventState* event(Handle handle) const { return find(events_, handle); }
  const StreamState* stream(const StreamKey& key) const { return find(streams_, key); }
  const GraphState* graph(Handle handle) const { return find(graphs_, handle); }
  const ExecState* exec(Handle handle) const { return find(execs_, handle); }
  const ContextState* context(Handle handle) const { return find(contexts_, handle); }

  const auto& events() const { return events_; }
  const auto& streams() const { return streams_; }
  const auto& graphs() const { return graphs_; }
  const auto& execs() const { return execs_; }
  const auto& contexts() const { return contexts_; }
  /// That are not over.
  const std::vector<std::shared_ptr<Capture>>& captures() const { return captures_; }

  bool is_capturing(const StreamKey& key) const;

  /// Of the work that is on streams. Captures have orders of their own.
  const StreamOrder& order() const { return order_; }

  /// Before the call is applied: the context that ends with it, or 0.
  Handle context_ended_by(const Call& call) const;

  /// Before the call is applied: the captures that it has invalidated, or would have.
  std::vector<std::shared_ptr<Capture>> captures_harmed_by(const Call& call) const;

  /// For lists of what was submitted.
  Submission submission_of(const Call& call) const;

  /// Whether a record or a wait has failed because its flag is for captures only.
  bool is_external_outside_capture(const Call& call) const;

private:
  template <class Map, class Key>
  static auto find(Map& map, const Key& key) -> decltype(&map.begin()->second) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  }

  // world.cpp
  void apply(const Call& call);
  void take_back(const Call& call);
  void end_context(const Call& call, Handle context);
  StreamState& known_stream(const StreamKey& key);
  EventState& known_event(Handle handle);
  /// A new object has the handle.
  template <class Map, class Key>
  auto& make(Map& map, const Key& key, const Call& call) {
    auto& made = map[key];
    if (made.number != 0) forget(made.number);
    made = {};
    made.number = ++last_number_;
    made.created = call;
    made.context = call.context;
    return made;
  }
  void create_event(const Call& call);
  void record(const Call& call, Handle event, const StreamKey& stream);
  void wait(const Call& call);
  void change_captures(Handle graph);
  void put_in_graph(const Call& call);
  void apply_graph(const Call& call);

  // world_order.cpp
  void put_in_order(const Call& call);
  void put_on_stream(const Call& call, StreamState& on);
  void submit(const StreamKey& key, StreamState& on, const OrderEffects& effects);
  void put_in_capture(const Call& call, Capture& capture);
  void put_memory_in_order(const Call& call);
  void mark_events(const Call& call);
  void wait_in_context(const Call& call);
  void host_waits_for(Handle event);
  const OrderEffects& effects_of(const Call& call) const;

  // world_captures.cpp
  void begin_capture(const Call& call);
  void end_capture(const Call& call);
  void end_capture(Capture& capture);
  void add_work(const Call& call);
  void join_capture(const StreamKey& stream, const EventState& event);

  // world_gone.cpp
  enum class Kind : std::uint8_t { event, stream, graph, exec, context };
  /// An object that was gone when this was noted.
  struct Gone {
    Kind kind;
    StreamKey key; // of a stream; for others, the handle alone
    std::uint64_t number;
  };
  void note_gone(Kind kind, const StreamKey& key, std::uint64_t number);
  void forget_gone(const Gone& gone);
  void note_thread_stream(const StreamKey& key);
  void forget(std::uint64_t number) const;
  void erase_stream(std::map<StreamKey, StreamState>::iterator stream);

  static constexpr std::size_t threads_kept = 8192; // the ends of threads are not known

  struct Primary {
    Handle context = 0;
    unsigned retained = 0;
  };

  std::vector<std::shared_ptr<Observer>> observers_;
  std::unordered_map<Handle, EventState> events_;
  std::map<StreamKey, StreamState> streams_;
  std::pair<const StreamKey, StreamState>* last_stream_ = nullptr; // of the last call that had one, or null
  std::unordered_map<Handle, GraphState> graphs_;
  std::unordered_map<Handle, ExecState> execs_;
  std::unordered_map<Handle, ContextState> contexts_;
  std::unordered_map<std::uint64_t, Primary> primary_; // by device
  std::unordered_map<std::uint32_t, std::uint64_t> mode_of_thread_;
  std::vector<std::shared_ptr<Capture>> captures_;
  StreamOrder order_;
  const OrderEffects* effects_ = nullptr; // of the call, from the observer that sees memory
  std::uint64_t last_number_ = 0, last_record_ = 0;
  std::deque<Gone> gone_;                // the oldest first
  std::deque<StreamKey> thread_streams_; // per-thread streams, as above
};

/// Whether the call has failed because of a capture. It may have invalidated one.
bool is_capture_error(const Call& call);

} // namespace watch
