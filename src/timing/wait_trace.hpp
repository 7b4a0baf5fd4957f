// Which work of a stream waits for which work of another stream. Inside the library only.
#pragma once

#include "timing/boundary_ring.hpp"

#include <algorithm>
#include <array>

namespace cuevent {

/// A point in the work of a stream: after one boundary and before the next one.
struct StreamPoint {
  cuuint64_t capture = 0; // 0: none
  std::uint32_t stream = 0;
  Ticket after = no_ticket;
};

/// A wait between two boundaries: what comes before `to` on one stream waits for what came after
/// `from` on another one. In a capture the tickets count the boundaries of the capture.
struct TracedWait {
  cuuint64_t capture = 0; // 0: none
  std::uint32_t from_stream = 0;
  Ticket from = no_ticket;
  std::uint32_t to_stream = 0;
  Ticket to = no_ticket; // unknown until the waiting stream reaches its next boundary
};

/// The waits of a stream since its last boundary. Allocates nothing.
class WaitsSinceBoundary {
public:
  /// False if there is no room.
  bool add(const TracedWait& wait) noexcept {
    if (count_ == waits_.size()) return false;
    waits_[count_++] = wait;
    return true;
  }
  /// Gives each wait, which ends at the boundary `to`, to `take`.
  template <class Take>
  void end_at(Ticket to, const Take& take) {
    for (std::size_t i = 0; i < count_; ++i) {
      waits_[i].to = to;
      take(waits_[i]);
    }
    count_ = 0;
  }
  const TracedWait* begin() const noexcept { return waits_.data(); }
  const TracedWait* end() const noexcept { return waits_.data() + count_; }

private:
  std::array<TracedWait, 16> waits_;
  std::size_t count_ = 0;
};

/// Follows events from record to wait, and answers what a stream waits for. It knows what it is
/// told and calls no driver function. Streams are numbers from 0.
///
/// A wait is followed from waited() until its stream reaches the next boundary, and from there
/// until settle() finds that nobody needs the wait any more. The class has more functions than
/// most, because a wait comes from a stream or from a captured graph.
class WaitTrace {
public:
  /// Follows at most that many waits between boundaries, and the last 64 recorded events.
  explicit WaitTrace(std::size_t most_waits);

  /// Makes room for the streams up to `stream`.
  void add_stream(std::uint32_t stream);

  /// `event` was recorded at that point. A point without a boundary before it marks nothing.
  void recorded(CUevent event, StreamPoint at);

  /// The stream at that point was made to wait for `event`. If the record is known, returns the
  /// wait, which the caller gives to add_to_stream() or keeps for its capture. `joins` is false for
  /// a wait that does not join the stream to a capture.
  std::optional<TracedWait> waited(CUevent event, StreamPoint at, bool joins) const noexcept;

  void add_to_stream(const TracedWait& wait) noexcept;
  void add(const TracedWait& wait) noexcept; // with both boundaries
  void reach(std::uint32_t stream, Ticket boundary) noexcept;

  /// Asks `settled` about each wait between two boundaries, and forgets the waits for which the
  /// answer is true.
  template <class Settled>
  void settle(const Settled& settled) {
    waits_.erase(std::remove_if(waits_.begin(), waits_.end(), settled), waits_.end());
  }

  /// What the stream waits for: all its waits that are not settled, the oldest first.
  std::vector<TracedWait> waits_of(std::uint32_t stream) const;

  /// Counts a wait that cannot be followed.
  void miss() noexcept { ++untraced_; }
  std::uint64_t untraced() const noexcept { return untraced_; }
  void clear_untraced() noexcept { untraced_ = 0; }

private:
  struct Record {
    CUevent event;
    StreamPoint at;
  };

  std::vector<Record> records_; // a ring once it is full
  std::size_t next_record_ = 0;
  std::vector<WaitsSinceBoundary> streams_;
  std::vector<TracedWait> waits_;
  std::uint64_t untraced_ = 0;
};

} // namespace cuevent
