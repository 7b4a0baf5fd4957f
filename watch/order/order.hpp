// SPDX-License-Identifier: MIT
// Which device work is ordered before which: streams, records, waits and host waits in, answers out. It knows
// no handles, no calls and no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace watch {

/// A piece of work, or a wait: the place in its stream. Places count from 1.
struct Point {
  std::uint32_t stream = 0;
  std::uint64_t place = 0;
};

/// Of each stream, by its number: the last place that comes before something.
using Places = std::vector<std::uint64_t>;

/// What comes before a record: with it, streams and the host can wait for the record.
struct OrderMark {
  Places before;
  std::vector<Point> holds; // waits for what is not known here, the last one of each stream
};

/// Every answer is "ordered" if that cannot be excluded. A host wait orders the work that any thread submits
/// later.
/// Thread-safety: none.
class Order {
public:
  enum class Kind : std::uint8_t {
    independent, // created with CU_STREAM_NON_BLOCKING
    blocking,    // waits for the legacy stream of its group, and the legacy stream for it
    legacy,
  };

  /// Groups are contexts. Group 0 is unknown, and may be any. If there are many streams, some of one kind and
  /// group have the same number, and count as ordered.
  std::uint32_t add_stream(Kind kind, std::uint64_t group);
  /// Its work goes on. A new stream of its kind and group may take the number; it counts as ordered behind
  /// the old one.
  void remove_stream(std::uint32_t stream);

  /// One more piece of work of the stream.
  Point submit(std::uint32_t stream);
  OrderMark record(std::uint32_t stream);
  /// Of all streams of the group, also of removed ones. Group 0: of all streams.
  OrderMark record_group(std::uint64_t group);
  void wait(std::uint32_t stream, const OrderMark& mark);
  void host_wait(const OrderMark& mark);

  /// The stream waits for something that is not known here, such as a value that another process writes. What
  /// follows may come after work that is submitted later, until the host knows that the wait is over.
  void hold(std::uint32_t stream);
  bool is_held(std::uint32_t stream);

  /// Whether the earlier work comes before what was last submitted to the stream.
  bool is_before(const Point& earlier, std::uint32_t stream) const {
    return place_in(streams_[stream].mark.before, earlier.stream) >= earlier.place;
  }
  /// Whether it comes before whatever is submitted from now on.
  bool is_known_by_host(const Point& earlier) const {
    return place_in(host_, earlier.stream) >= earlier.place;
  }

private:
  struct Stream {
    Kind kind = Kind::independent;
    std::uint64_t group = 0;
    std::uint64_t last = 0;       // its last place
    std::uint64_t host_waits = 0; // that it has taken over
    unsigned users = 0;           // streams with this number that are not removed
    OrderMark mark;               // what comes before its next work
  };

  static std::uint64_t place_in(const Places& places, std::uint32_t stream) {
    return stream < places.size() ? places[stream] : 0;
  }
  static void merge(Places& into, const Places& more);
  void take_over(OrderMark& into, const OrderMark& more) const;
  void catch_up(std::uint32_t number);

  std::vector<Stream> streams_;
  std::size_t next_shared_ = 0;
  Places host_;
  std::uint64_t host_waits_ = 0;
};

} // namespace watch
