// SPDX-License-Identifier: MIT
#include "rules/memory.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t accesses_kept = 256; // of an allocation, before they are merged

} // namespace

Call Site::call() const {
  Call made;
  made.entry = entry;
  made.marks = marks;
  made.thread = thread;
  made.stack = stack;
  made.context = context;
  made.stream_handle = stream;
  made.place = place;
  made.time = time;
  return made;
}

bool Rows::overlaps(const Rows& other) const {
  if (begin >= other.end() || other.begin >= end()) return false;
  if (count == 1 && other.count == 1) return true;
  const Rows& many = count > 1 ? *this : other;
  const Rows& few = count > 1 ? other : *this;
  if (few.count == 1) { // between two rows, or not
    if (few.begin < many.begin) return true;
    const std::uint64_t within = (few.begin - many.begin) % many.pitch;
    return within < many.width || within + few.width > many.pitch;
  }
  if (many.pitch != few.pitch) return false;
  const Rows& low = many.begin <= few.begin ? many : few;
  const Rows& high = many.begin <= few.begin ? few : many;
  const std::uint64_t within = (high.begin - low.begin) % low.pitch;
  return within < low.width || within + high.width > low.pitch;
}

void Allocation::add(const Access& access, const Order& order) {
  std::erase_if(accesses, [&](const Access& old) {
    if (order.is_known_by_host(old.point)) return true;
    return old.point.stream == access.point.stream && access.use <= old.use &&
           (access.rows == old.rows || (access.use == Use::copied && access.rows.covers(old.rows))) &&
           (access.writes || !old.writes) && (!access.after || old.after);
  });
  if (accesses.size() >= accesses_kept) merge();
  accesses.push_back(access);
}

/// Whoever is not ordered behind the earlier one of two accesses of a stream is not behind the later one. So
/// one at the earlier point may stand for both.
void Allocation::merge() {
  const auto kind_of = [](const Access& each) {
    return std::tuple(each.point.stream, each.use, each.writes);
  };
  std::ranges::sort(accesses, {},
                    [&](const Access& each) { return std::pair(kind_of(each), each.rows.begin); });
  std::vector<Access> merged;
  for (Access& each : accesses) {
    Access* const last = merged.empty() ? nullptr : &merged.back();
    if (last == nullptr || kind_of(*last) != kind_of(each) || last->rows.count != 1 || each.rows.count != 1 ||
        last->after || each.after || each.rows.begin > last->rows.end()) {
      merged.push_back(std::move(each));
      continue;
    }
    const std::uint64_t first = last->rows.begin, behind = std::max(last->rows.end(), each.rows.end());
    if (each.point.place < last->point.place) *last = std::move(each);
    last->rows = {first, behind - first};
  }
  accesses = std::move(merged);
  constexpr std::size_t left = accesses_kept * 3 / 4;
  if (accesses.size() <= left) return;
  // Copies and later uses are worth more.
  std::ranges::sort(accesses, {}, [](const Access& each) { return std::tuple(each.use, -each.site.time); });
  accesses.resize(left);
}

std::map<std::uint64_t, Allocation>::iterator Memory::first_behind(std::uint64_t address) {
  auto next = all_.upper_bound(address);
  if (next == all_.begin()) return next;
  const auto before = std::prev(next);
  return before->second.end() > address ? before : next;
}

Allocation& Memory::allocate(std::uint64_t begin, std::uint64_t size) {
  // Whatever is there has ended in a way that was not seen.
  for (auto old = first_behind(begin); old != all_.end() && old->first < begin + size;)
    old = all_.erase(old);
  Allocation& made = all_[begin];
  made.begin = begin;
  made.size = size;
  made.identity = new_identity();
  return made;
}

void Memory::put_back(Allocation allocation) {
  const std::uint64_t begin = allocation.begin;
  if (!for_each({begin, allocation.size}, [](const Allocation&) {})) all_[begin] = std::move(allocation);
}

Allocation Memory::free(std::uint64_t begin) {
  const auto found = all_.find(begin);
  if (found == all_.end()) return {};
  Allocation freed = std::move(found->second);
  all_.erase(found);
  return freed;
}

std::vector<Allocation> Memory::free(std::uint64_t begin, std::uint64_t size) {
  std::vector<Allocation> freed;
  for (auto old = first_behind(begin); old != all_.end() && old->first < begin + size;) {
    freed.push_back(std::move(old->second));
    old = all_.erase(old);
  }
  return freed;
}

Allocation* Memory::at(std::uint64_t address) {
  const auto found = first_behind(address);
  return found != all_.end() && found->first <= address ? &found->second : nullptr;
}

void Memory::end_context(Handle context) {
  std::erase_if(all_, [&](const auto& each) { return each.second.context == context; });
}

} // namespace watch
