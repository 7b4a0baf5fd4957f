// SPDX-License-Identifier: MIT
#include "rules/memory_records.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::size_t ends_kept = 4096; // beyond them, old uses after a free are not found
constexpr std::uint64_t most_staged = std::uint64_t{2} << 20; // measured: bytes of a copy that did not wait

/// How many bytes a copy from pageable memory had that was seen to return before it was done, on H200s.
struct EarlyReturns {
  std::uint64_t least, most;
  bool have(std::uint64_t bytes) const { return bytes >= least && bytes <= most; }
};
constexpr EarlyReturns of_a_line = {512 << 10, 16 << 20}, of_rows = {480 << 10, 8224 << 10};

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

void MemoryRecords::take(const Call& record, const Order& order, std::optional<Free> free) {
  const Part part{static_cast<MemoryPart>(record.number), {record.address, record.value, record.flags}};
  if (part.kind == MemoryPart::told_host) return; // the World knows it
  if (part.kind == MemoryPart::block_allocated || part.kind == MemoryPart::block_freed)
    return take_block(record, order);
  const bool is_unmap = part.kind == MemoryPart::unmapped;
  if (part.kind != MemoryPart::freed && !is_unmap) return parts_[record.thread].push_back(part);
  std::vector<Allocation>& dying = dying_[record.thread];
  dying.clear();
  if (is_unmap)
    dying = memory_.free(part.words[0], part.words[1]);
  else if (Allocation freed = memory_.free(part.words[0]); freed.size != 0)
    dying.push_back(std::move(freed));
  const Handle stream = is_unmap ? 0 : part.words[1];
  for (Allocation& each : dying) {
    blocks_.forget(each.begin, each.size);
    const bool is_known = stream == 0 ? each.origin != Origin::registered : free && !free->is_held;
    if (!is_known) each.identity = 0; // it may be used later
    // Another thread may get the address before the record of the call.
    if (free)
      freed_.add(each, free->mark);
    else if (is_known)
      freed_.add(each, std::nullopt);
  }
}

void MemoryRecords::take_block(const Call& record, const Order& order) {
  const std::uint64_t begin = record.address, size = record.value;
  if (static_cast<MemoryPart>(record.number) == MemoryPart::block_allocated) {
    const Allocation* const in = memory_.at(begin);
    if (in == nullptr || in->origin == Origin::found || size == 0 || begin + size < begin) return;
    ++blocks_seen_;
    const bool may_be_of_a_graph = record.flags != 0; // whose launches use it after its free
    return blocks_.allocate(record, *in, may_be_of_a_graph ? 0 : memory_.new_identity(), order);
  }
  const Allocation freed = blocks_.free(record, order);
  if (freed.is_in_graph) note_end(freed, Site(record));
}

void MemoryRecords::note_in_graph(const Access& access) {
  if (Allocation* const block = blocks_.at(access.rows.begin)) block->is_in_graph = true;
}

void MemoryRecords::end_context(Handle context) {
  memory_.end_context(context);
  blocks_.end_context(context);
}

std::vector<Part> MemoryRecords::parts_of_next_call(std::uint32_t thread) {
  return taken_out(parts_, thread);
}

std::vector<Allocation> MemoryRecords::freed_by_next_call(std::uint32_t thread) {
  return taken_out(dying_, thread);
}

void MemoryRecords::end(const Call& call, std::vector<Allocation> freed) {
  for (const Allocation& each : freed)
    note_end(each, Site(call));
  if (call.verb() == Verb::memory_free) freed_last_[call.thread] = std::move(freed);
}

void MemoryRecords::note_end(const Allocation& freed, const Site& site) {
  if (freed.identity != 0) ended_[freed.identity] = {freed.origin, freed.made, site};
  while (ended_.size() > ends_kept)
    ended_.erase(ended_.begin());
}

void MemoryRecords::keep(const Call& call) {
  std::vector<Allocation> kept = freed_by_next_call(call.thread);
  if (call.verb() == Verb::memory_free) kept = taken_out(freed_last_, call.thread);
  for (Allocation& each : kept) {
    ended_.erase(each.identity);
    freed_.take(each.begin, each.size);
    memory_.put_back(std::move(each));
  }
}

const Ended* MemoryRecords::end_of(const Access& access) {
  const auto found = ended_.find(access.memory);
  if (found == ended_.end()) return nullptr;
  // Memory is mapped again at the same address, so that graphs can use it.
  const Allocation* const now = memory_.at(access.rows.begin);
  const bool is_back =
      now != nullptr && now->origin == Origin::mapped && found->second.origin == Origin::mapped;
  return is_back ? nullptr : &found->second;
}

void MemoryRecords::note_made(const Call& call, const Part& part, const Point& point, const Order& order) {
  Allocation* const made = memory_.at(part.words[0]);
  if (made == nullptr) return;
  made->add({{made->begin, made->size}, true, Use::copied, point, Site(call), made->identity}, order);
}

std::vector<OrderMark> MemoryRecords::allocate(const Call& call, const Part& part) {
  const std::uint64_t begin = part.words[0], size = part.words[1];
  // It may have been told before, or a part of it, which is more than the driver tells.
  const bool lives = part.kind == MemoryPart::variable || part.kind == MemoryPart::found;
  if (lives && memory_.for_each({begin, size}, [](const Allocation&) {})) return {};
  // Until another allocation of the pool gets it, the driver may know freed memory.
  const FreedRanges::Range* const freed = freed_.holding(begin);
  if (call.verb() != Verb::memory_make && lives && freed != nullptr && freed->origin == Origin::pool)
    return {};
  std::vector<OrderMark> frees = freed_.take(begin, size);
  if (!call.has_stream()) frees.clear();
  Allocation& made = memory_.allocate(begin, size);
  made.origin = part.kind == MemoryPart::mapped     ? Origin::mapped
                : part.kind == MemoryPart::variable ? Origin::variable
                : part.kind == MemoryPart::found    ? Origin::found
                : call.work() == Work::allocation   ? Origin::pool
                : part.words[2] != 0                ? Origin::registered
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
  if (speaks_with_host(call.work())) {
    used.stores_for_host = used.ends_for_host = true;
    (call.work() == Work::host ? used.waits_for_host : used.may_wait) = true;
  }
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
  if (has_array || sides.size() == 2) // a fill has one side, and orders no other context
    for (const Side& side : sides)
      if (side.context != 0 && side.context != call.context) used.contexts.push_back(side.context);
  add_words(call, parts, used);
  return used;
}

MemoryRecords::Side MemoryRecords::side_of(const Call& call, const Part& part) {
  Side side;
  side.access = {rows_of(part), part.kind == MemoryPart::written};
  side.access.site = Site(call);
  side.named = static_cast<Named>(part.words[2] >> 30U & 3U);
  side.kind = side.named == Named::of_device ? Side::unknown : Side::pageable;
  const bool is_known = memory_.for_each(side.access.rows, [&](const Allocation& in) {
    if (side.access.memory == 0) side.access.memory = in.identity;
    const bool waits = in.is_managed && side.named == Named::of_host;
    const auto kind = !in.of_host ? Side::of_device : waits ? Side::managed_as_host : Side::seen;
    side.kind = side.kind == Side::unknown || side.kind == Side::pageable ? kind : std::max(side.kind, kind);
    const bool is_measured =
        in.origin == Origin::call || in.origin == Origin::pool || in.origin == Origin::mapped;
    side.is_plain = is_measured && !in.of_host && in.context == call.context;
    if (in.origin == Origin::call && (!in.of_host || in.is_managed)) side.context = in.context;
  });
  if (const Allocation* const block = blocks_.at(side.access.rows.begin))
    if (block->identity != 0) side.access.memory = block->identity;
  // The host may have got the address, unless it is of a pool or the driver has refused it.
  const FreedRanges::Range* const freed = freed_.holding(side.access.rows.begin);
  const bool is_gone = freed != nullptr && (freed->origin == Origin::pool || !call.succeeded());
  if (!is_known && side.named == Named::of_device && is_gone) side.access.memory = freed->memory;
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
  if (call.verb() == Verb::copy) tell_host_without_stream(call, sides, has_array, used);
}

/// Between allocations of the device, it returns at once.
void MemoryRecords::tell_host_without_stream(const Call& call, const std::vector<Side>& sides, bool has_array,
                                             Used& used) {
  const bool is_on_device =
      !has_array && std::ranges::all_of(sides, [](const Side& side) { return side.kind <= Side::of_device; });
  if (is_on_device && !sides.empty()) return;
  bool may_return_early =
      call.has(returns_early) && sides.size() == 2 && sides[0].kind == Side::pageable && sides[1].is_plain;
  if (may_return_early) {
    const Rows& rows = sides[0].access.rows;
    may_return_early = (rows.count > 1 ? of_rows : of_a_line).have(rows.width * rows.count);
  }
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
    Allocation* const in = at(word);
    if (in == nullptr) {
      const FreedRanges::Range* const freed = freed_.beginning_at(word);
      if (freed != nullptr && !freed->of_host && freed->memory != 0)
        used.accesses.push_back({{word, 1}, true, use, {}, Site(call), freed->memory});
      continue;
    }
    if (in->of_host) used.stores_for_host = used.ends_for_host = true;
    // The end of the memory before it, if the kernel has a pointer into that.
    const bool may_be_end = word == in->begin && in->origin != Origin::block;
    const Allocation* const before = may_be_end ? memory_.at(word - 1) : nullptr;
    const bool is_end = before != nullptr && std::any_of(words.begin(), words.end(), [&](const auto& other) {
                          return other.first >= before->begin && other.first < before->end();
                        });
    if (is_end) continue;
    const bool is_inside = use == Use::pointer && word != in->begin;
    in->has_slices = in->has_slices || is_inside;
    used.accesses.push_back(
        {{word, in->end() - word}, true, is_inside ? Use::inside : use, {}, Site(call), in->identity});
  }
}

} // namespace watch
