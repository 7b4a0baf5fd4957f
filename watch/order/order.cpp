// SPDX-License-Identifier: MIT
#include "order/order.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::size_t numbers_kept_apart = 256; // a program with more streams may lose findings

bool may_be_same(std::uint64_t group, std::uint64_t other) {
  return group == other || group == 0 || other == 0;
}

} // namespace

std::uint32_t Order::add_stream(Kind kind, std::uint64_t group) {
  std::uint32_t number = static_cast<std::uint32_t>(streams_.size());
  if (streams_.size() >= numbers_kept_apart && !removed_.empty()) {
    number = removed_.back();
    removed_.pop_back();
  } else {
    streams_.emplace_back();
  }
  Stream& added = streams_[number];
  added.kind = kind;
  added.group = group;
  added.removed = false;
  return number;
}

void Order::remove_stream(std::uint32_t stream) {
  if (streams_[stream].removed) return;
  streams_[stream].removed = true;
  removed_.push_back(stream);
}

void Order::merge(Places& into, const Places& more) {
  if (into.size() < more.size()) into.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i)
    into[i] = std::max(into[i], more[i]);
}

void Order::take_over(Stream& into, const Places& before, const std::vector<Point>& holds) {
  merge(into.before, before);
  for (const Point& hold : holds)
    if (!is_known_by_host(hold) && std::none_of(into.holds.begin(), into.holds.end(), [&](const Point& own) {
          return own.stream == hold.stream && own.place >= hold.place;
        }))
      into.holds.push_back(hold);
}

/// Everything that a submission to the stream would wait for now.
void Order::catch_up(std::uint32_t number) {
  Stream& stream = streams_[number];
  if (stream.kind != Kind::independent)
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const Stream& other = streams_[i];
      const bool is_pair =
          stream.kind == Kind::legacy ? other.kind == Kind::blocking : other.kind == Kind::legacy;
      if (is_pair && may_be_same(stream.group, other.group)) take_over(stream, other.before, other.holds);
    }
  if (stream.host_waits == host_waits_) return;
  stream.host_waits = host_waits_;
  merge(stream.before, host_);
}

Point Order::submit(std::uint32_t stream) {
  catch_up(stream);
  Stream& on = streams_[stream];
  if (on.before.size() <= stream) on.before.resize(stream + 1);
  on.before[stream] = ++on.last;
  return {stream, on.last};
}

OrderMark Order::record(std::uint32_t stream) {
  catch_up(stream);
  return {streams_[stream].before, streams_[stream].holds};
}

void Order::wait(std::uint32_t stream, const OrderMark& mark) {
  catch_up(stream);
  take_over(streams_[stream], mark.before, mark.holds);
}

void Order::host_wait(const OrderMark& mark) {
  merge(host_, mark.before);
  ++host_waits_;
}

void Order::hold(std::uint32_t stream) { streams_[stream].holds.push_back(submit(stream)); }

bool Order::is_held(std::uint32_t stream) {
  catch_up(stream);
  auto& holds = streams_[stream].holds;
  std::erase_if(holds, [this](const Point& hold) { return is_known_by_host(hold); });
  return !holds.empty();
}

} // namespace watch
