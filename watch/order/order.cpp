// SPDX-License-Identifier: MIT
#include "order/order.hpp"

#include <algorithm>

namespace watch {

namespace {

// A program with more streams may lose findings.
constexpr std::size_t numbers_kept_apart = 256; // with more, new streams take the numbers of removed ones,
constexpr std::size_t numbers_shared = 1024;    // and then of others

bool may_be_same(std::uint64_t group, std::uint64_t other) {
  return group == other || group == 0 || other == 0;
}

} // namespace

std::uint32_t Order::add_stream(Kind kind, std::uint64_t group) {
  const std::size_t count = streams_.size();
  for (std::size_t i = 0; count >= numbers_kept_apart && i < count; ++i) {
    const std::size_t number = next_shared_++ % count;
    Stream& other = streams_[number];
    if (other.kind != kind || other.group != group || (other.users > 0 && count < numbers_shared)) continue;
    ++other.users;
    return static_cast<std::uint32_t>(number);
  }
  Stream& added = streams_.emplace_back();
  added.kind = kind;
  added.group = group;
  added.users = 1;
  return static_cast<std::uint32_t>(count);
}

void Order::remove_stream(std::uint32_t stream) {
  if (streams_[stream].users > 0) --streams_[stream].users;
}

void Order::merge(Places& into, const Places& more) {
  if (into.size() < more.size()) into.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i)
    into[i] = std::max(into[i], more[i]);
}

void Order::take_over(OrderMark& into, const OrderMark& more) const {
  merge(into.before, more.before);
  for (const Point& hold : more.holds) {
    if (is_known_by_host(hold)) continue;
    const auto own = std::find_if(into.holds.begin(), into.holds.end(),
                                  [&](const Point& each) { return each.stream == hold.stream; });
    if (own == into.holds.end())
      into.holds.push_back(hold);
    else
      own->place = std::max(own->place, hold.place);
  }
}

/// Everything that a submission to the stream would wait for now.
void Order::catch_up(std::uint32_t number) {
  Stream& stream = streams_[number];
  if (stream.kind != Kind::independent)
    for (const Stream& other : streams_) {
      const bool is_pair =
          stream.kind == Kind::legacy ? other.kind == Kind::blocking : other.kind == Kind::legacy;
      if (is_pair && may_be_same(stream.group, other.group)) take_over(stream.mark, other.mark);
    }
  if (stream.host_waits == host_waits_) return;
  stream.host_waits = host_waits_;
  merge(stream.mark.before, host_);
}

Point Order::submit(std::uint32_t stream) {
  catch_up(stream);
  Stream& on = streams_[stream];
  if (on.mark.before.size() <= stream) on.mark.before.resize(stream + 1);
  on.mark.before[stream] = ++on.last;
  return {stream, on.last};
}

OrderMark Order::record(std::uint32_t stream) {
  catch_up(stream);
  return streams_[stream].mark;
}

OrderMark Order::record_group(std::uint64_t group) {
  OrderMark all;
  for (std::uint32_t i = 0; i < streams_.size(); ++i)
    if (may_be_same(streams_[i].group, group)) {
      catch_up(i);
      take_over(all, streams_[i].mark);
    }
  return all;
}

void Order::wait(std::uint32_t stream, const OrderMark& mark) {
  catch_up(stream);
  take_over(streams_[stream].mark, mark);
}

void Order::host_wait(const OrderMark& mark) {
  merge(host_, mark.before);
  ++host_waits_;
}

void Order::hold(std::uint32_t stream) {
  const Point hold = submit(stream);
  take_over(streams_[stream].mark, {{}, {hold}});
}

bool Order::is_held(std::uint32_t stream) {
  catch_up(stream);
  auto& holds = streams_[stream].mark.holds;
  std::erase_if(holds, [this](const Point& hold) { return is_known_by_host(hold); });
  return !holds.empty();
}

} // namespace watch
