// SPDX-License-Identifier: MIT
// A stream's place grows with each submission, each record, and each wait that tells it something new. So
// whoever knows a place of a stream knows all that came before that place, and a mark is merged only if its
// place is new.
#include "order/order.hpp"

#include <algorithm>
#include <iterator>

namespace watch {

namespace {

// A program with more streams may lose findings.
constexpr std::size_t numbers_kept_apart = 256; // with more, new streams take the numbers of removed ones,
constexpr std::size_t numbers_shared = 1024;    // and then of others

bool may_be_same(std::uint64_t group, std::uint64_t other) {
  return group == other || group == 0 || other == 0;
}

Surety are_same(std::uint64_t group, std::uint64_t other) {
  return group == other && group != 0 ? Surety::certain : Surety::possible;
}

bool is_news(const Reach& known, const Reach& told) {
  return told.possible > known.possible || told.certain > known.certain;
}

void extend(Reach& known, const Reach& told) {
  known.possible = std::max(known.possible, told.possible);
  known.certain = std::max(known.certain, told.certain);
}

} // namespace

std::uint32_t Order::add_stream(Kind kind, std::uint64_t group) {
  const std::size_t count = streams_.size();
  for (std::size_t i = 0; count >= numbers_kept_apart && i < count; ++i) {
    const std::size_t number = next_shared_++ % count;
    Stream& other = streams_[number];
    if (other.kind != kind || other.group != group || (other.users > 0 && count < numbers_shared)) continue;
    ++other.users;
    other.is_shared = true;
    return static_cast<std::uint32_t>(number);
  }
  Stream& added = streams_.emplace_back();
  added.kind = kind;
  added.group = group;
  added.users = 1;
  const auto number = static_cast<std::uint32_t>(count);
  if (kind == Kind::legacy) legacy_.push_back(number);
  if (kind == Kind::blocking) blocking_.push_back(number);
  return number;
}

void Order::remove_stream(std::uint32_t stream) {
  if (streams_[stream].users > 0) --streams_[stream].users;
}

/// To be changed: a copy if marks share it.
Past& Order::changed(std::shared_ptr<Past>& past) {
  if (!past)
    past = std::make_shared<Past>();
  else if (past.use_count() > 1)
    past = std::make_shared<Past>(*past);
  return *past;
}

bool Order::is_certain(const OrderMark& mark) const {
  return !mark.is_guess && !(mark.last.place > 0 && streams_[mark.last.stream].is_shared);
}

/// Returns whether there was something new. The own stream knows its own past.
bool Order::take_streams(std::shared_ptr<Past>& into, std::uint32_t own, const OrderMark& more, Surety surety,
                         const Past* known_past) const {
  const bool certain = surety == Surety::certain && is_certain(more);
  const auto told = [&](const Reach& theirs) { return Reach{theirs.possible, certain ? theirs.certain : 0}; };
  const auto [stream, place] = more.last;
  const Reach last = told({place, place});
  if (place > 0 && (stream == own || !is_news(reach(into.get(), stream), last))) return false;
  const std::vector<Reach> nothing;
  const std::vector<Reach>& theirs =
      more.past && more.past.get() != known_past ? more.past->streams : nothing;
  const std::vector<Reach>& known = into ? into->streams : nothing;
  std::size_t first = 0; // that is new: often there is none, and marks go on sharing what is known
  while (first < theirs.size() &&
         (first == own || !is_news(first < known.size() ? known[first] : Reach{}, told(theirs[first]))))
    ++first;
  if (first == theirs.size() && place == 0) return false;
  std::vector<Reach>& streams = changed(into).streams;
  streams.resize(std::max({streams.size(), theirs.size(), place > 0 ? stream + std::size_t{1} : 0}));
  for (std::size_t i = first; i < theirs.size(); ++i)
    if (i != own) extend(streams[i], told(theirs[i]));
  if (place > 0) extend(streams[stream], last);
  return true;
}

void Order::take_holds(std::shared_ptr<Past>& into, const Past& more) const {
  for (const Point& hold : more.holds) {
    if (is_known_by_host(hold)) continue;
    auto& holds = changed(into).holds;
    const auto own = std::find_if(holds.begin(), holds.end(),
                                  [&](const Point& each) { return each.stream == hold.stream; });
    if (own == holds.end())
      holds.push_back(hold);
    else
      own->place = std::max(own->place, hold.place);
  }
}

bool Order::take_over(std::shared_ptr<Past>& into, std::uint32_t own, const OrderMark& more, Surety surety,
                      const Past* known) const {
  if (!take_streams(into, own, more, surety, known)) return false;
  if (more.past && more.past.get() != known) take_holds(into, *more.past);
  return true;
}

bool Order::has_open_holds(const Past* past) const {
  return past != nullptr && std::any_of(past->holds.begin(), past->holds.end(),
                                        [this](const Point& hold) { return !is_known_by_host(hold); });
}

void Order::advance(std::uint32_t number) {
  Stream& stream = streams_[number];
  ++stream.last;
  if (stream.kind != Kind::blocking) return;
  if (all_changes_ > seen_changes_ && !changes_.empty() && changes_.back() == number) return;
  if (changes_.size() > blocking_.size()) changes_.clear();
  changes_.push_back(number);
  ++all_changes_;
}

std::span<const std::uint32_t> Order::changed_since(std::uint64_t seen) const {
  const std::uint64_t count = all_changes_ - seen;
  if (count > changes_.size()) return blocking_;
  return std::span(changes_).last(count);
}

/// Takes over what the next submission to the stream waits for. Returns whether other streams had news.
bool Order::take_news(std::uint32_t number, std::shared_ptr<Past>& past) const {
  const Stream& stream = streams_[number];
  const Past* const begun = past.get(); // many blocking streams may share it with their legacy stream
  bool has_news = false;
  if (stream.kind != Kind::independent)
    for (const std::uint32_t other : stream.kind == Kind::legacy ? changed_since(stream.seen) : legacy_)
      if (const std::uint64_t group = streams_[other].group; may_be_same(stream.group, group))
        has_news |= take_over(past, number, mark_of(other), are_same(stream.group, group), begun);
  // News of the host need no new place: whoever waits for this stream later knows them too.
  if (stream.host_waits != host_waits_) take_streams(past, number, {{}, host_}, Surety::certain);
  return has_news;
}

/// All work of the legacy stream comes between the work of its blocking streams. If that stream knows this
/// one's last place, it knows all that this one does, and both share that. Returns whether there was news.
bool Order::share_legacy(Stream& stream, std::uint32_t number) {
  if (stream.kind != Kind::blocking || stream.is_shared) return false;
  for (const std::uint32_t legacy : legacy_) {
    Stream& other = streams_[legacy];
    if (are_same(stream.group, other.group) != Surety::certain || other.is_shared) continue;
    const Reach told{other.last, other.last};
    if (!is_news(reach(stream.past.get(), legacy), told) ||
        reach(other.past.get(), number).certain < stream.last || stream.host_waits > other.host_waits)
      return false;
    if (is_news(reach(other.past.get(), legacy), told)) {
      std::vector<Reach>& streams = changed(other.past).streams;
      streams.resize(std::max(streams.size(), legacy + std::size_t{1}));
      streams[legacy] = told;
    }
    stream.past = other.past;
    stream.host_waits = other.host_waits;
    return true;
  }
  return false;
}

bool Order::catch_up(std::uint32_t number) {
  Stream& stream = streams_[number];
  if (stream.kind == Kind::independent && stream.host_waits == host_waits_) return false;
  const bool has_shared = share_legacy(stream, number);
  const bool has_news = take_news(number, stream.past) || has_shared;
  if (has_news) advance(number);
  stream.host_waits = host_waits_;
  if (stream.kind == Kind::legacy) stream.seen = seen_changes_ = all_changes_;
  return has_news;
}

OrderMark Order::next(std::uint32_t stream) const {
  std::shared_ptr<Past> past = streams_[stream].past;
  const bool has_news = take_news(stream, past);
  return {{stream, streams_[stream].last + (has_news ? 1 : 0)}, std::move(past)};
}

Point Order::submit(std::uint32_t stream) {
  catch_up(stream);
  advance(stream);
  Stream& on = streams_[stream];
  on.last_work = on.last;
  return {stream, on.last};
}

OrderMark Order::record(std::uint32_t stream) {
  Stream& on = streams_[stream];
  const bool may_be_left = catch_up(stream) || on.last_work != on.last;
  advance(stream);
  if (!may_be_left) on.last_work = on.last;
  return mark_of(stream);
}

OrderMark Order::record_group(std::uint64_t group) {
  std::shared_ptr<Past> all;
  const Past* known = nullptr; // which the next stream may share
  for (std::uint32_t i = 0; i < streams_.size(); ++i)
    if (may_be_same(streams_[i].group, group)) {
      catch_up(i);
      const Surety surety = group == 0 ? Surety::certain : are_same(streams_[i].group, group);
      take_over(all, no_stream, mark_of(i), surety, known);
      known = surety == Surety::certain && !streams_[i].is_shared ? streams_[i].past.get() : nullptr;
    }
  return {{}, std::move(all)};
}

void Order::wait(std::uint32_t stream, const OrderMark& mark, Surety surety) {
  catch_up(stream);
  Stream& on = streams_[stream];
  if (!take_over(on.past, stream, mark, surety)) return;
  advance(stream);
  on.last_work = on.last;
}

void Order::host_wait(const OrderMark& mark, Surety surety) {
  if (take_streams(host_, no_stream, mark, surety)) ++host_waits_;
}

void Order::host_waits_for(std::uint32_t stream) {
  const Stream& on = streams_[stream];
  host_wait({{stream, on.last_work}, on.last == on.last_work ? on.past : nullptr});
  host_wait(record(stream), Surety::possible);
}

Point Order::hold(std::uint32_t stream) {
  has_holds_ = true;
  const Point hold = submit(stream);
  take_holds(streams_[stream].past, {{}, {hold}});
  return hold;
}

std::vector<Point> Order::open_holds(std::uint32_t stream) const {
  const OrderMark mark = next(stream);
  std::vector<Point> open;
  if (has_holds_ && mark.past)
    std::copy_if(mark.past->holds.begin(), mark.past->holds.end(), std::back_inserter(open),
                 [this](const Point& each) { return !is_known_by_host(each); });
  return open;
}

Ordered Order::compare(const Point& earlier, const OrderMark& later) const {
  Reach known = reach(later.past.get(), earlier.stream);
  if (later.last.stream == earlier.stream && later.last.place > 0)
    known = {later.last.place, later.last.place};
  if (earlier.place <= known.certain && is_certain(later) && !streams_[earlier.stream].is_shared)
    return Ordered::before;
  if (earlier.place <= known.possible || has_open_holds(later.past.get())) return Ordered::unknown;
  return Ordered::not_before;
}

Ordered Order::compare_with_host(const Point& earlier) const { return compare(earlier, {{}, host_}); }

Ordered Order::compare_with_host(const OrderMark& earlier) const {
  return earlier.last.place > 0 ? compare_with_host(earlier.last) : Ordered::unknown;
}

} // namespace watch
