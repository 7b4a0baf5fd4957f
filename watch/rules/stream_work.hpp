// SPDX-License-Identifier: MIT
// What is pending on the streams of a process: calls and moments in, an observation of the streams out.
#pragma once

#include "rules/moment.hpp"
#include "rules/stream_places.hpp"
#include "rules/world.hpp"

#include "recording/flight_observation.hpp"

#include <functional>
#include <unordered_map>
#include <utility>

namespace watch {

/// Texts that only somebody with the symbols of the process can make.
struct Namer {
  std::function<std::string(Handle function)> kernel; // "spin(int)"
  std::function<std::string(const Call& call)> place; // "train() (train.cpp:12)"; empty if unknown
  std::function<std::string(Handle address)> code;    // "put_back (pool.cpp:7)", of a function of the host
};

/// What else is known about a stream of an observation.
struct StreamNote {
  std::string wait_place; // where the wait that holds it up was submitted; empty if unknown
  bool was_asked = true;  // by the last look
};

struct Observation : cuevent::FlightObservation {
  std::vector<StreamNote> notes{}; // of its streams
};

/// Where a stream is in its sequence of collectives.
struct CollectivePosition {
  const CollectiveSequence* sequence;
  std::uint64_t first;        // when the first collective was submitted, in the order of all calls
  std::uint64_t reached;      // collectives
  std::uint64_t reached_next; // collectives, when it has reached the next calls
  NcclWork next;              // what is among the calls that it has to reach next
  bool is_pending;            // it has not reached all of its probes
};

/// The work of one process.
/// Thread-safety: none; one thread calls it.
class StreamWork : public Observer {
public:
  /// `kernel_name` is asked once for each function.
  explicit StreamWork(const World& world, std::function<std::string(Handle)> kernel_name = {})
      : world_(world), kernel_name_(std::move(kernel_name)) {}

  void before(const Call& call) override;
  /// Takes probes too.
  void after(const Call& call) override;
  void forget_stream(const StreamKey& key) override;

  /// Takes what a look has found out.
  void see(const std::vector<ProbedState>& states);

  /// Takes probes whose records are lost, if there will be no more records. What comes before them is not
  /// known.
  void add_lost_probes(const std::vector<ProbedState>& states);

  /// Whether work is known to be pending at this time: a probe was not reached, or a query of the program
  /// said so a moment ago.
  bool has_pending(std::chrono::nanoseconds now = {}) const;

  /// Whether the stream has work behind its last probe, so that nobody knows whether that work is done.
  bool has_unprobed(const StreamKey& key) const;

  /// Grows with everything that is submitted or reached. It stays the same while nothing moves.
  std::uint64_t progress() const { return submitted_ + reached_; }
  std::uint64_t submitted() const { return submitted_; }

  /// Whether the call submits a kernel to a stream whose launch queue has room. If it does not return, it
  /// waits for something else.
  bool launches_with_room(const Call& call) const;

  /// Everything that is known at this moment, for `cuevent::analyse`. Call `see` with its streams before.
  Observation observe(const Moment& moment, const Namer& namer) const;

  /// For the streams of `observe`, in the same order.
  std::vector<CollectivePosition> collective_positions() const;

private:
  /// The first place of each stream that is known not to be reached, by the number of the stream. Of a stream
  /// without an entry, nobody knows whether its last places were reached.
  using Unreached = std::map<std::uint64_t, Position>;

  /// What the last record of an event waits for.
  struct Event {
    std::vector<StreamPlace> points = {};
    std::chrono::nanoseconds time = {};
    std::uint32_t thread = 0; // that recorded it
  };

  // stream_work.cpp
  Stream& stream(const StreamKey& key);
  const StreamState& known(const Stream& stream) const;
  bool is_known(Handle event) const;
  void submit(const Call& call, Stream& on);
  Place& open_place(const Call& call, Stream& on);
  void order_default_streams(Stream& on, Place& place);
  std::vector<StreamPlace> points_of(const Stream& recorded) const;
  void record(const Call& call, Handle event);
  void record_context(const Call& call);
  void wait(const Call& call, Stream& on);

  // stream_collectives.cpp
  const std::string& nccl_name(Handle function);
  void add_collective(const Call& call, Stream& on);

  // stream_progress.cpp
  void add_probe(const Call& call);
  /// Also reaches what the reached places have waited for.
  void reach(const Stream& reached, Position end);
  /// The call has found that the last record of the event is done.
  void reach(const Call& call, const Event& event);
  /// The call has found that all earlier work of the stream is done.
  void reach_all(const Call& call, Stream& reached);
  /// False if another thread may have recorded the event again meanwhile.
  static bool means_last_record(const Call& call, const Event& event);
  bool is_reached(const StreamPlace& point) const;
  /// The call asked about work that is not done.
  void note_not_ready(const Call& call);

  // stream_unreached.cpp
  Unreached known_unreached(const Moment& moment) const;
  static bool is_unreached(const Unreached& unreached, const StreamPlace& point);
  void note_calls_under_way(const Moment& moment, Unreached& unreached) const;
  void follow_waits(Unreached& unreached) const;

  // stream_observation.cpp
  struct View;
  std::string name_of(const Stream& stream, const View& view) const;
  std::optional<std::vector<StreamPlace>> signals_of(const StreamPlace& waiting,
                                                     const ValueOperation& wait) const;
  std::map<std::uint64_t, Position> possible_causes(const View& view, const Stream& stream,
                                                    Position last) const;
  void show_pending(const View& view, const Stream& stream, Position last, cuevent::ObservedStream& shown,
                    StreamNote& note) const;
  void show_waits(const View& view, const Stream& stream, Position last, cuevent::ObservedStream& shown,
                  StreamNote& note) const;
  /// Of a thread that is blocked because the launch queue of the stream may be full.
  std::optional<cuevent::FlightCall> call_of(const Moment& moment, const Stream& stream) const;

  const World& world_;
  std::function<std::string(Handle)> kernel_name_;
  std::unordered_map<Handle, std::string> nccl_names_; // empty for other kernels
  std::map<std::shared_ptr<const Capture>, CollectiveSequence> captured_;
  std::map<std::uint64_t, Stream> streams_; // by number
  std::map<StreamKey, std::uint64_t> numbers_;
  std::unordered_map<Handle, Event> events_;
  std::unordered_map<Handle, std::uint64_t> values_; // the last one that a reached place wrote, by address
  std::uint64_t next_number_ = 1;
  std::uint64_t submitted_ = 0, reached_ = 0; // calls, and places
  std::size_t places_ = 0;                    // of all streams
};

} // namespace watch
