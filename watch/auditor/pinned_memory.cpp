// SPDX-License-Identifier: MIT
#include "auditor/pinned_memory.hpp"

#include "auditor/host_guards.hpp"
#include "auditor/mapped_memory.hpp"
#include "auditor/pending_sources.hpp"
#include "auditor/state.hpp"

#include <cstring>

namespace watch {

namespace {

/// The first range that ends behind the address.
std::uint32_t first_behind(const PinnedMemory& pinned, std::uint64_t address) {
  std::uint32_t low = 0, high = pinned.count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (pinned.ranges[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void take_out(PinnedMemory& pinned, std::uint32_t index) {
  forget_sources_in(pinned.ranges[index].begin, pinned.ranges[index].end);
  give_back_in(pinned.ranges[index].begin, pinned.ranges[index].end);
  --pinned.count;
  std::memmove(&pinned.ranges[index], &pinned.ranges[index + 1],
               (pinned.count - index) * sizeof pinned.ranges[0]);
}

} // namespace

void add_pinned(std::uint64_t begin, std::size_t size, std::uint64_t context, bool is_of_program) {
  PinnedMemory& pinned = cleared_by_fork->pinned;
  const bool is_plain =
      state.options.has(host_uses) && (!is_of_program || is_readable_and_writable(begin, begin + size));
  const Locked lock(pinned.lock);
  const std::uint64_t end = begin + size;
  const std::uint32_t index = first_behind(pinned, begin);
  // Whatever is there has ended in a way that was not seen.
  while (index < pinned.count && pinned.ranges[index].begin < end)
    take_out(pinned, index);
  if (size == 0 || pinned.count == PinnedMemory::limit) return;
  std::memmove(&pinned.ranges[index + 1], &pinned.ranges[index],
               (pinned.count - index) * sizeof pinned.ranges[0]);
  pinned.ranges[index] = {begin, end, context, is_plain};
  ++pinned.count;
}

void forget_pinned(std::uint64_t begin) {
  PinnedMemory& pinned = cleared_by_fork->pinned;
  const Locked lock(pinned.lock);
  const std::uint32_t index = first_behind(pinned, begin);
  if (index < pinned.count && pinned.ranges[index].begin <= begin) take_out(pinned, index);
}

void forget_pinned_of(std::uint64_t context) {
  PinnedMemory& pinned = cleared_by_fork->pinned;
  const Locked lock(pinned.lock);
  for (std::uint32_t i = pinned.count; i-- > 0;)
    if (const std::uint64_t owner = pinned.ranges[i].context; context == 0 || owner == 0 || owner == context)
      take_out(pinned, i);
}

bool is_pinned(std::uint64_t begin, std::uint64_t end) {
  const PinnedMemory& pinned = cleared_by_fork->pinned;
  const std::uint32_t index = first_behind(pinned, begin);
  return index < pinned.count && pinned.ranges[index].begin <= begin && end <= pinned.ranges[index].end;
}

bool is_plain(std::uint64_t begin, std::uint64_t end) {
  const PinnedMemory& pinned = cleared_by_fork->pinned;
  return is_pinned(begin, end) && pinned.ranges[first_behind(pinned, begin)].is_plain;
}

void note_protection(std::uint64_t begin, std::uint64_t end) {
  PinnedMemory& pinned = cleared_by_fork->pinned;
  const Locked lock(pinned.lock);
  for (std::uint32_t i = first_behind(pinned, begin); i < pinned.count && pinned.ranges[i].begin < end; ++i)
    pinned.ranges[i].is_plain = false;
}

} // namespace watch
