// SPDX-License-Identifier: MIT
// The boundaries of one stream, on their way to the device and back. Inside the library only.
#pragma once

#include "core/position.hpp"
#include "core/status.hpp"

#include <cuevent/stage_timer.hpp>

#include <optional>

namespace cuevent { inline namespace CUEVENT_ABI {

/// What happens at a boundary: a stage ends, a stage begins, or one ends and the next begins.
struct Change {
  bool closes = false;
  std::optional<StageId> opens;
};

/// The launch of a graph that records a boundary, and the capture that the boundary comes from.
struct LaunchPart {
  std::uint64_t launch = 0; // its number; 0: a call records the boundary
  std::size_t capture = 0;  // among those that went into the graph
};

/// One end of a stage: an event, and its time once the event has completed.
struct Boundary {
  enum class Recorded {
    no, // the stage that ends here is lost
    by_call,
    by_launch,           // of a graph, in this stream
    by_launch_elsewhere, // in another stream
  };

  DriverEvent event;
  Change change;
  Recorded recorded = Recorded::no;
  LaunchPart part;
  long long host = 0; // when the host requested the boundary
  double time = 0;
  bool has_context_event = false; // BoundaryRing::context_event() is recorded after `event`
  std::optional<double> all;      // the time of the context's event, if there is one
  // The numbers of the spans that end and begin here. Known after reading; 0: none.
  std::uint64_t closed = 0, opened = 0;
};

/// The largest number of boundaries of a stream in a launch queue at a time. A queue holds about
/// 1,020 timed records and other work, so the timer never fills one: see docs/timing.md.
inline constexpr std::size_t most_in_stream = 256;      // shared with the program's own work
inline constexpr std::size_t most_in_side_stream = 512; // no other work

/// A ring of events that are used again and again. push() sends a boundary on its way, pop() marks
/// the oldest one as read. What was read stays until the ring comes round again.
///
/// Each open stage that is timed keeps one event for its end, so that a stage that began can end.
/// The class has more members than most, because all counts change with push() and pop().
class BoundaryRing {
public:
  /// In the current context, which must be `context`. Driver function: cuEventCreate.
  Status create(const Context& context, std::size_t events, std::size_t most_submitted,
                StageEscapes escapes = StageEscapes::ignored);

  /// Whether the ring has that many free events, and the launch queue room for that many records.
  bool has_room(std::size_t events, std::size_t records) const noexcept {
    return boundaries_.size() - static_cast<std::size_t>(next_ - read_) - kept_ >= events &&
           most_submitted_ - submitted_ - kept_ >= records;
  }
  void keep_event_for_end() noexcept { ++kept_; }
  void use_event_for_end() noexcept { --kept_; }

  Boundary& at(Position position) noexcept { return boundaries_[position % boundaries_.size()]; }
  /// With StageEscapes::checked: the boundary's event for the whole context.
  DriverEvent& context_event(Position position) noexcept {
    return context_events_[position % context_events_.size()];
  }
  Position next() const noexcept { return next_; } // the first that is not on its way
  Position read() const noexcept { return read_; } // the first that is not read
  bool all_read() const noexcept { return read_ == next_; }
  /// Whether what was read of the boundary is still there.
  bool remembers(Position position) const noexcept {
    return position < read_ && next_ <= position + boundaries_.size();
  }

  /// The boundary next(), whose event has been recorded.
  void push(Change change, long long host, Boundary::Recorded recorded, LaunchPart part = {},
            bool has_context_event = false) noexcept;
  void pop() noexcept;
  /// The newest recorded event that is on its way; the ring must not be all read.
  const DriverEvent& newest_event() noexcept;

private:
  std::vector<Boundary> boundaries_;
  std::vector<DriverEvent> context_events_; // as many, or none
  Position next_ = 0, read_ = 0;
  std::size_t kept_ = 0;      // events for the ends of open stages
  std::size_t submitted_ = 0; // boundaries that take room in a launch queue; boundaries in graphs do not
  std::size_t most_submitted_ = 0;
};

}} // namespace cuevent::CUEVENT_ABI
