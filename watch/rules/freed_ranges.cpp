// SPDX-License-Identifier: MIT
#include "rules/freed_ranges.hpp"

#include <iterator>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t ranges_kept = 4096; // beyond them, each allocation waits for all frees

} // namespace

void FreedRanges::add(std::uint64_t begin, std::uint64_t size, OrderMark free) {
  if (ranges_.size() < ranges_kept)
    ranges_[begin] = {size, std::move(free)};
  else
    unplaced_[free.last.stream] = std::move(free);
}

std::vector<OrderMark> FreedRanges::take(std::uint64_t begin, std::uint64_t size) {
  std::vector<OrderMark> frees;
  for (const auto& [stream, free] : unplaced_)
    frees.push_back(free);
  auto old = ranges_.lower_bound(begin);
  if (old != ranges_.begin() && std::prev(old)->first + std::prev(old)->second.size > begin) --old;
  while (old != ranges_.end() && old->first < begin + size) {
    const auto [start, range] = std::move(*old);
    frees.push_back(range.free);
    old = ranges_.erase(old);
    const std::uint64_t end = start + range.size;
    if (start < begin) ranges_[start] = {begin - start, range.free};
    if (end > begin + size) ranges_[begin + size] = {end - (begin + size), range.free};
  }
  return frees;
}

} // namespace watch
