// SPDX-License-Identifier: MIT
#include "rules/memory_records.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::uint64_t most_polled = 64; // bytes of a store that the host can poll

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
  if (part.kind != MemoryPart::freed) return parts_[record.thread].push_back(part);
  Allocation& dying = dying_[record.thread] = memory_.free(part.words[0]);
  // A call may unmap what several have mapped.
  for (const std::uint64_t end = part.words[0] + part.words[2]; dying.size != 0 && dying.end() < end;) {
    Allocation next = memory_.free(dying.end());
    if (next.size == 0) break;
    dying.size += next.size;
    dying.accesses.insert(dying.accesses.end(), next.accesses.begin(), next.accesses.end());
  }
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
  Allocation& made = memory_.allocate(begin, size);
  made.of_host = part.kind == MemoryPart::allocated_host;
  made.made = Site(call);
  made.context = call.context;
  return frees;
}

Used MemoryRecords::use_of(const Call& call, const std::vector<Part>& parts, unsigned long* unknown_kernels) {
  Used used;
  if (speaks_with_host(call.work())) used.stores_for_host = used.ends_for_host = used.may_wait = true;
  if (is_opaque(call, parts)) used.stores_for_host = used.ends_for_host = true;
  for (const Part& part : parts) {
    const auto& words = part.words;
    if (part.kind == MemoryPart::read || part.kind == MemoryPart::written) {
      const std::uint64_t count = words[2] & 0xFFFF'FFFF, pitch = words[2] >> 32U;
      Access access{{words[0], words[1], pitch, count == 0 || pitch == 0 ? 1 : count},
                    part.kind == MemoryPart::written};
      access.site = Site(call);
      bool of_host = false;
      const bool known =
          memory_.for_each(access.rows, [&](Allocation& in) { of_host = of_host || in.of_host; });
      used.reads_of_host = used.reads_of_host || of_host;
      if (!known) used.ends_for_host = true; // pageable memory: the call may wait
      if (access.writes && (of_host || !known)) {
        used.stores_for_host = true;
        if (access.rows.width * access.rows.count <= most_polled) used.ends_for_host = true;
      }
      used.accesses.push_back(access);
    } else if (part.kind == MemoryPart::unknown) {
      used.stores_for_host = used.ends_for_host = true;
      if (unknown_kernels != nullptr) ++*unknown_kernels;
    }
  }
  add_words(call, parts, used);
  return used;
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
