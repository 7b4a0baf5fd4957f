// SPDX-License-Identifier: MIT
// What the records of memory tell: the allocations of a process, and what its next calls use.
#pragma once

#include "rules/blocks.hpp"
#include "rules/freed_ranges.hpp"
#include "rules/graph_work.hpp"
#include "rules/unseen_memory.hpp"
#include "rules/work_kinds.hpp"

#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace watch {

/// Memory that was freed.
struct Ended {
  Origin origin = Origin::call;
  Site made, freed;
};

/// The records of a thread come before the record of the call that they belong to.
class MemoryRecords {
public:
  /// What comes before a stream-ordered free. `is_held`: it may come after work that is submitted later.
  struct Free {
    OrderMark mark;
    bool is_held;
  };
  /// A record of memory. `free`: of a stream-ordered free, if the stream is known.
  void take(const Call& record, const Order& order, std::optional<Free> free);
  /// What belongs to the next call of the thread.
  std::vector<Part> parts_of_next_call(std::uint32_t thread);
  /// What the next call of the thread frees. Empty if that is not known.
  std::vector<Allocation> freed_by_next_call(std::uint32_t thread);
  /// The call has freed it, or has failed to. Calls that free without a stream are seen before they fail.
  void end(const Call& call, std::vector<Allocation> freed);
  void keep(const Call& call);
  /// The end of what the access uses, or null if it lives or that is not known.
  const Ended* end_of(const Access& access);

  /// What a record of such a part tells, also of memory that lives already. Returns the frees that a
  /// stream-ordered allocation comes after.
  std::vector<OrderMark> allocate(const Call& call, const Part& part);
  void note_handle(const Part& part);
  /// The point of a stream-ordered allocation, which is the first write.
  void note_made(const Call& call, const Part& part, const Point& point, const Order& order);
  /// Memory of a graph gets this address. Its life is not known.
  void give_to_graph(const Part& part) {
    freed_.take(part.words[0], part.words[1]);
    memory_.free(part.words[0], part.words[1]);
  }
  void end_context(Handle context);
  /// A graph will use what the access uses.
  void note_in_graph(const Access& access);
  /// Of PyTorch's allocator, until now.
  unsigned long blocks() const { return blocks_seen_; }

  /// What the call uses. Counts kernels whose parameters are not known, and memory.
  Used use_of(const Call& call, const std::vector<Part>& parts, unsigned long& unknown_kernels,
              UnseenMemory& unseen);

  /// The block, or the memory that no block has.
  Allocation* at(std::uint64_t address) {
    Allocation* const block = blocks_.at(address);
    return block != nullptr ? block : memory_.at(address);
  }
  /// Calls it with each allocation that the access may touch, blocks instead of what they are in.
  template <class See>
  void for_each(const Access& access, See see) {
    if (access.use == Use::copied) {
      if (!blocks_.for_each(access.rows, see)) memory_.for_each(access.rows, see);
    } else if (Allocation* const in = at(access.rows.begin)) {
      see(*in);
    }
  }

private:
  /// What a copy or a fill reads or writes. Kinds from `seen` on are of the host, too.
  struct Side {
    enum Kind : std::uint8_t { unknown, of_device, seen, managed_as_host, pageable } kind = unknown;
    Named named = Named::of_device;
    Access access = {};
    bool is_plain = false; // memory of the device, allocated or mapped in the context of the call
    Handle context = 0;    // of memory of the device that cuMemAlloc or cuMemAllocManaged has made
  };
  Side side_of(const Call& call, const Part& part);
  static void tell_host(const Call& call, const std::vector<Side>& sides, bool has_array, Used& used);
  static void tell_host_without_stream(const Call& call, const std::vector<Side>& sides, bool has_array,
                                       Used& used);
  void note_end(const Allocation& freed, const Site& site);
  void take_block(const Call& record, const Order& order);
  void add_words(const Call& call, const std::vector<Part>& parts, Used& used);

  Memory memory_;
  Blocks blocks_; // in it
  unsigned long blocks_seen_ = 0;
  std::unordered_set<std::uint64_t> seen_handles_; // of memory that somebody else sees
  FreedRanges freed_;
  std::unordered_map<std::uint32_t, std::vector<Part>> parts_;       // of each thread's next call
  std::unordered_map<std::uint32_t, std::vector<Allocation>> dying_; // which each thread is about to free
  std::unordered_map<std::uint32_t, std::vector<Allocation>> freed_last_; // without a stream, by each thread
  std::map<Identity, Ended> ended_;                                       // the last ones
};

} // namespace watch
