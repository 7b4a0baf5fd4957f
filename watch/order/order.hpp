// SPDX-License-Identifier: MIT
// Which device work is ordered before which: streams, records, waits and host waits in, answers out. It knows
// no handles, no calls and no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace watch {

/// A piece of work, or a wait: the place in its stream. Places count from 1.
struct Point {
  std::uint32_t stream = 0;
  std::uint64_t place = 0;
};

/// Whether work comes before something.
enum class Ordered : std::uint8_t {
  before,
  not_before, // nothing that was seen orders it
  unknown,
};

/// Whether a wait was seen, or cannot be excluded.
enum class Surety : std::uint8_t { certain, possible };

/// Of a stream: the last place that may come before something, and the last one that certainly does.
struct Reach {
  std::uint64_t possible = 0, certain = 0;
};

/// What comes before something. Marks share it.
struct Past {
  std::vector<Reach> streams; // by their numbers
  std::vector<Point> holds;   // waits for what is not known here, the last one of each stream
};

/// What comes before a record: with it, streams and the host can wait for the record.
struct OrderMark {
  Point last;                       // the record itself; place 0: of no stream
  std::shared_ptr<const Past> past; // of the other streams; null: nothing
  bool is_guess = false;            // it may have a part of this only
};

/// A bool as answer is true if "ordered" cannot be excluded. A host wait orders the work that any thread
/// submits later.
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
  void wait(std::uint32_t stream, const OrderMark& mark, Surety surety = Surety::certain);
  void host_wait(const OrderMark& mark, Surety surety = Surety::certain);
  /// The stream has no work left. A record that only waits for the legacy stream may be left, as measured.
  void host_waits_for(std::uint32_t stream);

  /// The stream waits for something that is not known here, such as a value that another process writes. What
  /// follows may come after work that is submitted later, until the host knows that the wait is over.
  Point hold(std::uint32_t stream);
  bool is_held(std::uint32_t stream) const { return has_holds_ && has_open_holds(next(stream).past.get()); }

  /// The waits that what the stream gets next may come after, and that are not known to be over.
  std::vector<Point> open_holds(std::uint32_t stream) const;

  /// Whether the earlier work comes before what was last submitted to the stream.
  bool is_before(const Point& earlier, std::uint32_t stream) const {
    const Stream& on = streams_[stream];
    return earlier.place <=
           (earlier.stream == stream ? on.last : reach(on.past.get(), earlier.stream).possible);
  }
  /// Whether it comes before whatever is submitted from now on.
  bool is_known_by_host(const Point& earlier) const {
    return earlier.place <= reach(host_.get(), earlier.stream).possible;
  }

  /// What would come before work that is submitted to the stream now. Asking changes nothing, so nobody can
  /// wait for this mark.
  OrderMark next(std::uint32_t stream) const;
  /// Whether the earlier work comes before what the mark stands for.
  Ordered compare(const Point& earlier, const OrderMark& later) const;
  /// Whether the host knows that the work is done, or all that comes before the record.
  Ordered compare_with_host(const Point& earlier) const;
  Ordered compare_with_host(const OrderMark& earlier) const;

private:
  struct Stream {
    Kind kind = Kind::independent;
    bool is_shared = false; // several streams have, or had, this number: nothing about them is certain
    std::uint64_t group = 0;
    std::uint64_t last = 0;       // its last place
    std::uint64_t last_work = 0;  // the last one that is done when the stream has no work left
    std::uint64_t host_waits = 0; // that it has taken over
    std::uint64_t seen = 0;       // of a legacy stream: the changes that it knows
    unsigned users = 0;           // streams with this number that are not removed
    std::shared_ptr<Past> past;   // what comes before its next work; not always with its own
  };
  static constexpr std::uint32_t no_stream = std::numeric_limits<std::uint32_t>::max();

  static Reach reach(const Past* past, std::uint32_t stream) {
    return past != nullptr && stream < past->streams.size() ? past->streams[stream] : Reach{};
  }
  static Past& changed(std::shared_ptr<Past>& past);
  OrderMark mark_of(std::uint32_t stream) const {
    return {{stream, streams_[stream].last}, streams_[stream].past};
  }
  bool is_certain(const OrderMark& mark) const;
  // `known`: a past that `into` has.
  bool take_streams(std::shared_ptr<Past>& into, std::uint32_t own, const OrderMark& more, Surety surety,
                    const Past* known = nullptr) const;
  void take_holds(std::shared_ptr<Past>& into, const Past& more) const;
  bool take_over(std::shared_ptr<Past>& into, std::uint32_t own, const OrderMark& more, Surety surety,
                 const Past* known = nullptr) const;
  bool has_open_holds(const Past* past) const;
  bool take_news(std::uint32_t number, std::shared_ptr<Past>& past) const;
  void advance(std::uint32_t number);
  /// Blocking streams that have new places since the legacy stream looked, and perhaps others.
  std::span<const std::uint32_t> changed_since(std::uint64_t seen) const;
  bool share_legacy(Stream& stream, std::uint32_t number);
  bool catch_up(std::uint32_t number);

  std::vector<Stream> streams_;
  std::vector<std::uint32_t> legacy_, blocking_; // streams of these kinds
  std::vector<std::uint32_t> changes_;           // the last new places of blocking streams
  std::uint64_t all_changes_ = 0;                // with those that are not kept
  std::uint64_t seen_changes_ = 0;               // that some legacy stream knows
  std::size_t next_shared_ = 0;
  std::shared_ptr<Past> host_; // what the host knows to be done
  std::uint64_t host_waits_ = 0;
  bool has_holds_ = false; // or had some
};

} // namespace watch
