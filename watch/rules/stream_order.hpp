// SPDX-License-Identifier: MIT
// The order of the work of a process, outside captures: the streams, events and host waits of its calls.
#pragma once

#include "rules/objects.hpp"

namespace watch {

/// The World tells it what each call does; rules ask. "Not before" means that no recorded call orders the
/// work. Not all that orders work is recorded:
/// - What the host reads from memory that a kernel writes is known only with records of memory.
/// - Host waits by cuMemFree are recorded only then.
/// Thread-safety: none.
class StreamOrder {
public:
  // ---- Questions ----

  /// Where the work of the last call is. None if the call has not submitted any, or to a capture.
  const std::optional<Point>& point() const { return point_; }
  /// Whether that work may come after work that is submitted later.
  bool is_held() const { return is_held_; }
  /// The host functions that it may come after. Empty if it may also come after another wait.
  const std::vector<Point>& host_functions() const { return host_functions_; }

  /// Whether the earlier work comes before work that is submitted to the stream now.
  Ordered compare(const Point& earlier, const StreamState& later) const;
  /// Whether something orders the stream's next work behind the earlier work, or may do so: the stream has
  /// waited for what is not known. What the host may learn from kernels and host functions does not count.
  bool may_be_behind(const Point& earlier, const StreamState& later) const;
  /// Whether it comes before the last record of the event.
  Ordered compare(const Point& earlier, const EventState& later) const;
  /// Whether the host knows that the work is done, by a wait or a query.
  Ordered compare_with_host(const Point& earlier) const { return order_.compare_with_host(earlier); }
  /// Whether the host knows that the last record of the event is done. An event without a record is done.
  Ordered compare_with_host(const EventState& earlier) const;
  /// What comes before work that is submitted to the stream now.
  OrderMark next(const StreamState& stream) const;
  /// Whether that work may come after work that is submitted later.
  bool is_held(const StreamState& stream) const {
    return stream.number_in_order && order_.is_held(*stream.number_in_order);
  }
  const Order& order() const { return order_; }

  // ---- What calls do ----

  void begin_call() { point_.reset(); }
  /// The state is of the stream with the key.
  void submit(const StreamKey& key, StreamState& stream, const OrderEffects& effects);
  OrderMark record(const StreamKey& key, StreamState& stream);
  /// Of streams that are not known.
  OrderMark record_some();
  void wait(const StreamKey& key, StreamState& stream, const OrderMark& mark, Surety surety);
  void hold(const StreamKey& key, StreamState& stream);
  /// The host has found that the stream has no work left.
  void host_waits_for(const StreamKey& key, StreamState& stream);
  void host_waits_for(const OrderMark& mark, Surety surety) { order_.host_wait(mark, surety); }
  /// For all streams of the context. 0: perhaps for any stream.
  void host_waits_for_context(Handle context);
  /// Another stream gets the handle, or the context of the stream has ended.
  void remove(StreamState& stream);

private:
  std::uint32_t number(const StreamKey& key, StreamState& stream);
  bool are_host_functions(const std::vector<Point>& holds) const;
  void hold_for_host(std::uint32_t stream);

  Order order_;
  std::optional<Point> point_;
  bool is_held_ = false;
  std::vector<Point> host_functions_;
  /// The last hold of each stream, if a host function holds it.
  std::map<std::uint32_t, std::uint64_t> last_functions_;
};

} // namespace watch
