// SPDX-License-Identifier: MIT
#include "rules/blocks.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t uses_kept = 32;          // of a free range; beyond them, the oldest are forgotten
constexpr std::size_t free_ranges_kept = 4096; // that are free and in use; beyond them, they are forgotten

/// Whoever comes after the later one comes after the earlier one too.
bool stands_for(const FormerUse& later, const FormerUse& earlier) {
  const Access &one = later.access, &other = earlier.access;
  return one.point.stream == other.point.stream && one.use <= other.use && one.rows.covers(other.rows) &&
         (one.writes || !other.writes);
}

void add(std::vector<FormerUse>& uses, FormerUse use, const Order& order) {
  if (order.is_known_by_host(use.access.point)) return;
  std::erase_if(uses, [&](const FormerUse& earlier) { return stands_for(use, earlier); });
  if (uses.size() == uses_kept) uses.erase(uses.begin());
  uses.push_back(std::move(use));
}

} // namespace

void Blocks::allocate(const Call& record, const Allocation& in, Identity identity, const Order& order) {
  const std::uint64_t begin = record.address, size = record.value;
  std::vector<FormerUse> former = take(begin, size, order);
  Allocation& made = live_.allocate(begin, size);
  made.origin = Origin::block;
  made.identity = identity;
  made.context = in.context;
  made.of_host = in.of_host;
  made.is_managed = in.is_managed;
  made.made = Site(record);
  made.former = std::move(former);
}

Allocation Blocks::free(const Call& record, const Order& order) {
  Allocation freed = live_.free(record.address);
  if (freed.size == 0) return freed;
  std::vector<FormerUse> uses;
  for (FormerUse& each : freed.former)
    add(uses, std::move(each), order);
  std::ranges::sort(freed.accesses, {}, [](const Access& each) { return each.point.place; });
  for (const Access& each : freed.accesses)
    add(uses, {each, freed.size, freed.made, Site(record)}, order);
  if (uses.empty()) return freed;
  if (free_.size() >= free_ranges_kept) forget_known(order);
  free_[freed.begin] = {freed.end(), std::move(uses)};
  return freed;
}

/// What the host knows to be done; all, if that is little.
void Blocks::forget_known(const Order& order) {
  std::erase_if(free_, [&](const auto& range) {
    return std::ranges::all_of(
        range.second.uses, [&](const FormerUse& use) { return order.is_known_by_host(use.access.point); });
  });
  if (free_.size() > free_ranges_kept / 2) free_.clear();
}

/// What is left of a range at the sides keeps its uses.
std::vector<FormerUse> Blocks::take(std::uint64_t begin, std::uint64_t size, const Order& order) {
  const std::uint64_t end = begin + size;
  std::vector<FormerUse> taken;
  auto next = free_.lower_bound(begin);
  if (next != free_.begin() && std::prev(next)->second.end > begin) --next;
  while (next != free_.end() && next->first < end) {
    const std::uint64_t start = next->first;
    Free range = std::move(next->second);
    next = free_.erase(next);
    for (const FormerUse& use : range.uses)
      add(taken, use, order);
    if (start < begin) free_[start] = {begin, range.uses};
    if (range.end > end) next = free_.insert_or_assign(end, Free{range.end, std::move(range.uses)}).first;
  }
  return taken;
}

void Blocks::forget(std::uint64_t begin, std::uint64_t size) {
  live_.free(begin, size);
  auto next = free_.lower_bound(begin);
  while (next != free_.end() && next->first < begin + size)
    next = free_.erase(next);
}

} // namespace watch
