// SPDX-License-Identifier: MIT
// Which work of a stream waits for which work of another stream. Inside the library only.
#pragma once

#include "core/position.hpp"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A point in the work of a stream: after one boundary and before the next one.
struct StreamPoint {
  cuuint64_t capture = 0; // 0: none
  std::uint32_t stream = 0;
  Position after = no_position;
};

/// A wait of one stream for another. The event was recorded after the boundary `from`, and the wait
/// came before the boundary `to`. In a capture, positions count over the whole capture.
struct TracedWait {
  cuuint64_t capture = 0; // 0: none
  std::uint32_t from_stream = 0;
  Position from = no_position;
  std::uint32_t to_stream = 0;
  Position to = no_position; // unknown until the waiting stream reaches its next boundary
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
  void end_at(Position to, const Take& take) {
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

/// Follows events from record to wait, and answers what a stream waits for. The trace knows what it
/// is told, and calls no driver function. Streams are numbers from 0.
///
/// 1. recorded() and waited() match a wait with the record of its event. 2. add_to_stream() keeps
/// the wait until reach() says that its stream has reached a boundary. add() is for the waits of a
/// captured graph, whose boundaries are known at the launch. 3. settle() drops the waits that have
/// completed.
///
/// The class has more functions than most, because each wait goes through these three steps.
class WaitTrace {
public:
  /// Follows at most that many waits between boundaries, and the last 64 recorded events.
  explicit WaitTrace(std::size_t most_waits);

  /// Makes room for the streams up to `stream`.
  void add_stream(std::uint32_t stream);

  /// `event` was recorded at that point. A point without a boundary before it marks nothing.
  void recorded(CUevent event, StreamPoint at);

  /// A stream waits for `event` from that point on. If the record is known, returns the wait. The
  /// caller gives it to add_to_stream(), or keeps it for the capture that the wait is in. `joins`
  /// is false for a wait that does not join the stream to a capture.
  std::optional<TracedWait> waited(CUevent event, StreamPoint at, bool joins) const noexcept;

  void add_to_stream(const TracedWait& wait) noexcept;
  void reach(std::uint32_t stream, Position boundary) noexcept;
  void add(const TracedWait& wait) noexcept;

  /// Asks `settled` about each wait that has both boundaries, and drops the waits for which the
  /// answer is true.
  template <class Settled>
  void settle(const Settled& settled) {
    waits_.erase(std::remove_if(waits_.begin(), waits_.end(), settled), waits_.end());
  }

  /// What the stream waits for: all its waits that are not settled. Waits that have reached a
  /// boundary come first.
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

}} // namespace cuevent::CUEVENT_ABI
