// SPDX-License-Identifier: MIT
#include "rules/freed_ranges.hpp"

#include <iterator>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t ranges_kept = 4096;                // beyond them, each allocation waits for all frees
constexpr std::size_t ranges_without_stream_kept = 4096; // beyond them, uses after the free are not found

} // namespace

void FreedRanges::add(const Allocation& freed, std::optional<OrderMark> free) {
  if (const auto old = ranges_.find(freed.begin); old != ranges_.end()) { // whose next use was not seen
    if (!old->second.free) --without_stream_;
    ranges_.erase(old);
  }
  if (!free) {
    if (without_stream_ == ranges_without_stream_kept) return;
    ++without_stream_;
  } else if (ranges_.size() - without_stream_ >= ranges_kept) {
    unplaced_[free->last.stream] = std::move(*free);
    return;
  }
  ranges_[freed.begin] = {freed.size, freed.identity, freed.origin, freed.of_host, std::move(free)};
}

std::vector<OrderMark> FreedRanges::take(std::uint64_t begin, std::uint64_t size) {
  std::vector<OrderMark> frees;
  for (const auto& [stream, free] : unplaced_)
    frees.push_back(free);
  auto old = ranges_.lower_bound(begin);
  if (old != ranges_.begin() && std::prev(old)->first + std::prev(old)->second.size > begin) --old;
  while (old != ranges_.end() && old->first < begin + size) {
    const std::uint64_t start = old->first, end = start + old->second.size;
    Range range = std::move(old->second);
    old = ranges_.erase(old);
    if (!range.free) { // its rest is not in use, and may be forgotten
      --without_stream_;
      continue;
    }
    frees.push_back(*range.free);
    if (end > begin + size) {
      ranges_[begin + size] = range;
      ranges_[begin + size].size = end - (begin + size);
    }
    if (start < begin) {
      range.size = begin - start;
      ranges_[start] = std::move(range);
    }
  }
  return frees;
}

const FreedRanges::Range* FreedRanges::beginning_at(std::uint64_t address) const {
  const auto found = ranges_.find(address);
  return found != ranges_.end() ? &found->second : nullptr;
}

const FreedRanges::Range* FreedRanges::holding(std::uint64_t address) const {
  auto found = ranges_.upper_bound(address);
  if (found == ranges_.begin()) return nullptr;
  --found;
  return address - found->first < found->second.size ? &found->second : nullptr;
}

} // namespace watch
