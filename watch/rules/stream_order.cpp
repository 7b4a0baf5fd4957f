// SPDX-License-Identifier: MIT
#include "rules/stream_order.hpp"

#include <algorithm>
#include <utility>

namespace watch {

namespace {

Order::Kind kind_of(const StreamKey& key, const StreamState& stream) {
  if (key.handle == 1) return Order::Kind::legacy;
  const bool is_independent = stream.created && (stream.flags & CU_STREAM_NON_BLOCKING) != 0;
  return is_independent ? Order::Kind::independent : Order::Kind::blocking;
}

} // namespace

Ordered StreamOrder::compare(const Point& earlier, const StreamState& later) const {
  if (!later.number_in_order) return Ordered::unknown; // it may be any of the old ones
  return order_.compare(earlier, order_.next(*later.number_in_order));
}

bool StreamOrder::may_be_behind(const Point& earlier, const StreamState& later) const {
  return compare(earlier, later) == Ordered::before || later.waits_for_unknown;
}

Ordered StreamOrder::compare(const Point& earlier, const EventState& later) const {
  if (!later.mark || later.capture || later.may_have_other_record()) return Ordered::unknown;
  return order_.compare(earlier, *later.mark);
}

Ordered StreamOrder::compare_with_host(const EventState& earlier) const {
  if (earlier.capture || earlier.may_have_other_record()) return Ordered::unknown;
  return earlier.mark ? order_.compare_with_host(*earlier.mark) : Ordered::before;
}

OrderMark StreamOrder::next(const StreamState& stream) const {
  return stream.number_in_order ? order_.next(*stream.number_in_order) : OrderMark{{}, nullptr, true};
}

void StreamOrder::submit(const StreamKey& key, StreamState& stream, const OrderEffects& effects) {
  const std::uint32_t to = number(key, stream);
  for (const OrderMark& mark : effects.behind)
    order_.wait(to, mark);
  if (effects.stores_for_host) order_.host_wait(order_.record(to), Surety::possible);
  point_ = order_.submit(to);
  is_held_ = order_.is_held(to);
  host_functions_.clear();
  if (is_held_) host_functions_ = order_.open_holds(to);
  if (!are_host_functions(host_functions_)) host_functions_.clear();
  if (effects.ends_for_host) order_.host_wait(order_.record(to), Surety::possible);
  if (effects.may_wait)
    order_.hold(to);
  else if (effects.waits_for_host)
    hold_for_host(to);
}

bool StreamOrder::are_host_functions(const std::vector<Point>& holds) const {
  return std::all_of(holds.begin(), holds.end(), [&](const Point& hold) {
    const auto last = last_functions_.find(hold.stream);
    return last != last_functions_.end() && last->second == hold.place;
  });
}

/// The last hold of a stream stands for the earlier ones.
void StreamOrder::hold_for_host(std::uint32_t stream) {
  std::vector<Point> own = order_.open_holds(stream);
  std::erase_if(own, [stream](const Point& hold) { return hold.stream != stream; });
  const bool is_known = are_host_functions(own);
  const Point hold = order_.hold(stream);
  if (is_known)
    last_functions_[stream] = hold.place;
  else
    last_functions_.erase(stream);
}

OrderMark StreamOrder::record(const StreamKey& key, StreamState& stream) {
  return order_.record(number(key, stream));
}

OrderMark StreamOrder::record_some() {
  OrderMark mark = order_.record_group(0);
  mark.is_guess = true;
  return mark;
}

void StreamOrder::wait(const StreamKey& key, StreamState& stream, const OrderMark& mark, Surety surety) {
  order_.wait(number(key, stream), mark, surety);
}

void StreamOrder::hold(const StreamKey& key, StreamState& stream) { order_.hold(number(key, stream)); }

void StreamOrder::host_waits_for(const StreamKey& key, StreamState& stream) {
  order_.host_waits_for(number(key, stream));
}

void StreamOrder::host_waits_for_context(Handle context) {
  order_.host_wait(order_.record_group(context), context != 0 ? Surety::certain : Surety::possible);
}

void StreamOrder::remove(StreamState& stream) {
  if (stream.number_in_order) order_.remove_stream(*std::exchange(stream.number_in_order, std::nullopt));
}

std::uint32_t StreamOrder::number(const StreamKey& key, StreamState& stream) {
  if (!stream.number_in_order)
    stream.number_in_order = order_.add_stream(kind_of(key, stream), stream.context);
  return *stream.number_in_order;
}

} // namespace watch
