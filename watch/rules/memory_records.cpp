// SPDX-License-Identifier: MIT
#include "rules/memory_records.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::uint64_t most_polled = 64;                     // bytes of a store that the host can poll
constexpr std::uint64_t most_staged = std::uint64_t{1} << 20; // measured: bytes of a copy that did not wait

/// Measured on an H200: cuMemcpyHtoD from pageable memory returned before the copy was done at 1, 4 and 16
/// MiB, and not at 256 KiB and 64 MiB.
constexpr std::uint64_t least_returned_early = std::uint64_t{1} << 20,
                        most_returned_early = std::uint64_t{16} << 20;

/// Of a part that tells rows.
Rows rows_of(const Part& part) {
  const std::uint64_t count = part.words[2] & 0x3FFF'FFFF, pitch = part.words[2] >> 32U;
  return {part.words[0], part.words[1], pitch, count == 0 || pitch == 0 ? 1 : count};
}

template <class Map>
typename Map::mapped_type taken_out(Map& map, std::uint32_t thread) {
  auto node = map.extract(thread);
  return node.empty() ? typename Map::mapped_type{} : std::move(node.mapped());
}

} // namespace

void MemoryRecords::take(const Call& record,
                         const std::function<std::optional<OrderMark>(const StreamKey&)>& mark) {
  const Part part{static_cast<MemoryPart>(record.number), {record.address, record.value, record.flags}};
  if (part.kind == MemoryPart::told_host) return; // the World knows it
  if (part.kind == MemoryPart::unmapped) {
    Allocation& dying = dying_[record.thread] = memory_.free(part.words[0], part.words[1]);
    dying.origin = Origin::mapped;
    return;
  }
  if (part.kind != MemoryPart::freed) return parts_[record.thread].push_back(part);
  Allocation& dying = dying_[record.thread] = memory_.free(part.words[0]);
  if (part.words[1] == 0 || dying.size == 0) return;
  // Another thread may get the address before the record of the call.
  if (auto free = mark(key_of(part.words[1], record.context, record.thread)))
    freed_.add(dying.begin, dying.size, std::move(*free));
}

std::vector<Part> MemoryRecords::parts_of_next_call(std::uint32_t thread) {
  return taken_out(parts_, thread);
}

Allocation MemoryRecords::freed_by_next_call(std::uint32_t thread) { return taken_out(dying_, thread); }

std::vector<OrderMark> MemoryRecords::allocate(const Call& call, const Part& part) {
  const std::uint64_t begin = part.words[0], size = part.words[1];
  std::vector<OrderMark> frees;
  if (call.has_stream()) frees = freed_.take(begin, size);
  // It may have been told before, or a part of it, which is more than the driver tells.
  const bool lives = part.kind == MemoryPart::variable || part.kind == MemoryPart::found;
  if (lives && memory_.for_each({begin, size}, [](const Allocation&) {})) return frees;
  Allocation& made = memory_.allocate(begin, size);
  made.origin = part.kind == MemoryPart::mapped     ? Origin::mapped
                : part.kind == MemoryPart::variable ? Origin::variable
                : part.kind == MemoryPart::found    ? Origin::found
                : call.work() == Work::allocation   ? Origin::pool
                                                    : Origin::call;
  made.is_managed = part.kind == MemoryPart::allocated_managed;
  made.of_host = made.is_managed || part.kind == MemoryPart::allocated_host ||
                 part.kind == MemoryPart::found ||
                 (part.kind == MemoryPart::mapped && seen_handles_.contains(part.words[2]));
  made.made = Site(call);
  made.context = call.context;
  return frees;
}

void MemoryRecords::note_handle(const Part& part) {
  if (part.words[1] != 0)
    seen_handles_.insert(part.words[0]);
  else
    seen_handles_.erase(part.words[0]); // another one had the number
}

Used MemoryRecords::use_of(const Call& call, const std::vector<Part>& parts, unsigned long& unknown_kernels,
                           UnseenMemory& unseen) {
  Used used;
  if (speaks_with_host(call.work())) used.stores_for_host = used.ends_for_host = used.may_wait = true;
  if (is_opaque(call, parts)) used.stores_for_host = used.ends_for_host = true;
  bool has_array = false, is_unknown = false;
  std::vector<Side> sides;
  for (const Part& part : parts)
    switch (part.kind) {
    case MemoryPart::found:
      allocate(call, part);
      break;
    case MemoryPart::array:
      has_array = true;
      break;
    case MemoryPart::read:
    case MemoryPart::written:
      sides.push_back(side_of(call, part));
      is_unknown = is_unknown || sides.back().kind == Side::unknown;
      used.accesses.push_back(sides.back().access);
      break;
    case MemoryPart::unknown:
      used.stores_for_host = used.ends_for_host = true;
      ++unknown_kernels;
      break;
    default:
      break;
    }
  if (is_unknown) ++unseen.unknown;
  if (has_array) ++unseen.arrays;
  tell_host(call, sides, has_array, used);
  add_words(call, parts, used);
  return used;
}

MemoryRecords::Side MemoryRecords::side_of(const Call& call, const Part& part) {
  Side side;
  side.access = {rows_of(part), part.kind == MemoryPart::written};
  side.access.site = Site(call);
  side.named = static_cast<Named>(part.words[2] >> 30U & 3U);
  side.kind = side.named == Named::of_device ? Side::unknown : Side::pageable;
  memory_.for_each(side.access.rows, [&](const Allocation& in) {
    const bool waits = in.is_managed && side.named == Named::of_host;
    const auto kind = !in.of_host ? Side::of_device : waits ? Side::managed_as_host : Side::seen;
    side.kind = side.kind == Side::unknown || side.kind == Side::pageable ? kind : std::max(side.kind, kind);
  });
  return side;
}

/// What the host learns from a copy or a fill: docs/what-the-driver-does.md has the measured waits.
void MemoryRecords::tell_host(const Call& call, const std::vector<Side>& sides, bool has_array, Used& used) {
  bool from_host = false, to_host = false;
  for (const Side& side : sides) {
    const std::uint64_t bytes = side.access.rows.width * side.access.rows.count;
    const bool is_of_host = side.kind >= Side::seen;
    (side.access.writes ? to_host : from_host) |= is_of_host;
    if (side.kind == Side::managed_as_host) used.ends_for_host = true;
    if (side.kind == Side::pageable && (side.access.writes || bytes > most_staged)) used.ends_for_host = true;
    if (!side.access.writes || !is_of_host) continue;
    used.stores_for_host = true;
    if (bytes <= most_polled) used.ends_for_host = true;
  }
  if (from_host && to_host) used.ends_for_host = true;
  if (call.verb() == Verb::copy) tell_host_without_stream(sides, has_array, used);
}

/// Between allocations of the device, it returns at once.
void MemoryRecords::tell_host_without_stream(const std::vector<Side>& sides, bool has_array, Used& used) {
  const bool is_on_device =
      !has_array && std::ranges::all_of(sides, [](const Side& side) { return side.kind <= Side::of_device; });
  if (is_on_device && !sides.empty()) return;
  const Side* const from = sides.size() == 2 && !sides[0].access.writes ? &sides[0] : nullptr;
  const bool may_return_early =
      from != nullptr && from->kind == Side::pageable && from->named == Named::of_host &&
      from->access.rows.count == 1 && sides[1].kind == Side::of_device &&
      from->access.rows.width >= least_returned_early && from->access.rows.width <= most_returned_early;
  used.stores_for_host = true;
  used.ends_for_host = !may_return_early;
}

void MemoryRecords::add_words(const Call& call, const std::vector<Part>& parts, Used& used) {
  std::vector<std::pair<std::uint64_t, Use>> words;
  for (const Part& part : parts)
    if (part.kind == MemoryPart::pointers || part.kind == MemoryPart::words_inside)
      for (const std::uint64_t word : part.words)
        if (word != 0) words.emplace_back(word, part.kind == MemoryPart::pointers ? Use::pointer : Use::word);
  for (const auto& [word, use] : words) {
    const Allocation* const in = memory_.at(word);
    if (in == nullptr) continue;
    if (in->of_host) used.stores_for_host = used.ends_for_host = true;
    // The end of the memory before it, if the kernel has a pointer into that.
    const Allocation* const before = word == in->begin ? memory_.at(word - 1) : nullptr;
    const bool is_end = before != nullptr && std::any_of(words.begin(), words.end(), [&](const auto& other) {
                          return other.first >= before->begin && other.first < before->end();
                        });
    if (is_end) continue;
    Access access{{word, in->end() - word}, true, use};
    access.site = Site(call);
    used.accesses.push_back(access);
  }
}

} // namespace watch
