// SPDX-License-Identifier: MIT
// The memory of a process: allocations, and the uses of each that later ones may have to wait for.
#pragma once

#include "order/order.hpp"
#include "rules/call.hpp"
#include "rules/pending_work.hpp"

#include <map>
#include <memory>
#include <vector>

namespace watch {

/// What a finding says of an earlier call, in less room than a Call.
struct Site {
  std::uint16_t entry = 0;
  std::uint8_t marks = 0;
  std::uint32_t thread = 0, stack = 0;
  Handle context = 0;
  Handle stream = 0;
  HoldPlace place = {};
  std::chrono::nanoseconds time{};

  Site() = default;
  explicit Site(const Call& call)
      : entry(call.entry), marks(call.marks), thread(call.thread), stack(call.stack), context(call.context),
        stream(call.stream_handle), place(call.place), time(call.time) {}
  Call call() const;
};

/// Bytes: one row, or rows of a pitch.
struct Rows {
  std::uint64_t begin = 0, width = 0, pitch = 0, count = 1;

  std::uint64_t end() const { return begin + (count - 1) * pitch + width; }
  /// False if rows of different pitches may overlap, which is not known.
  bool overlaps(const Rows& other) const;
  bool covers(const Rows& other) const { return count == 1 && begin <= other.begin && other.end() <= end(); }
  bool operator==(const Rows&) const = default;
};

/// How sure it is that the memory is used.
enum class Use : std::uint8_t {
  copied,  // by a copy or a memset, or made by a stream-ordered allocation
  pointer, // a parameter of a kernel is the begin of the memory
  inside,  // a parameter of a kernel lies in it: a pointer, or a number
  word,    // a part of a larger parameter, perhaps stale
};

inline constexpr std::uint64_t most_polled = 256; // bytes of a status that somebody may poll

/// Of one allocation: other memory may get its address.
using Identity = std::uint64_t;

struct Access {
  Rows rows;
  bool writes = false;
  Use use = Use::copied;
  Point point = {};
  Site site = {};
  Identity memory = 0;                                  // that is at the begin of the rows. 0: not known
  std::shared_ptr<const std::vector<Point>> after = {}; // host functions, which may wait for later work
};

/// How the memory came to the program.
enum class Origin : std::uint8_t {
  call,       // cuMemAlloc and its like
  pool,       // cuMemAllocAsync
  registered, // it stays the host's
  mapped,     // cuMemMap
  variable,   // of a module
  found,      // the driver knew it, and no watched call has made it
  block,      // of PyTorch's allocator, in other memory
};

/// A use of a block that was there before.
struct FormerUse {
  Access access;
  std::uint64_t size = 0; // of that block
  Site made, freed;
};

struct Allocation {
  std::uint64_t begin = 0, size = 0;
  Origin origin = Origin::call;
  Identity identity = 0;
  bool of_host = false;    // somebody else sees it too: the host, or another process
  bool is_managed = false; // and the driver moves it
  Handle context = 0;
  Site made;
  bool has_slices = false;            // kernels get pointers into it
  bool is_in_graph = false;           // of a block: a graph may use it after the free
  bool is_filled = false;             // a copy or a fill has written to it
  std::vector<Access> accesses;       // that the host has not waited for
  std::vector<FormerUse> former = {}; // of a block: whoever uses it comes after these
  // Of memory of the host: copies and fills that write to it, by their streams, and how many there were.
  std::map<std::uint32_t, PendingWork> writers = {};
  std::uint64_t writes = 0;

  std::uint64_t end() const { return begin + size; }
  /// Forgets what is ordered before everything that follows, and what the new access stands for. Of many
  /// accesses, neighbours become one.
  void add(const Access& access, const Order& order);
  /// What the access uses: a kernel may use all that follows its pointer, but not other slices.
  Rows rows_of(const Access& access) const {
    return has_slices && access.use != Use::copied ? Rows{access.rows.begin, 1} : access.rows;
  }

private:
  void merge();
};

class Memory {
public:
  Allocation& allocate(std::uint64_t begin, std::uint64_t size);
  /// One that was taken out is back.
  void put_back(Allocation allocation);
  /// Takes the allocation out that begins there. Its size is 0 if there is none.
  Allocation free(std::uint64_t begin);
  /// Takes out all that the range holds.
  std::vector<Allocation> free(std::uint64_t begin, std::uint64_t size);
  Allocation* at(std::uint64_t address);
  /// Calls it with each allocation that the rows touch. Returns whether they lie in one.
  template <class See>
  bool for_each(const Rows& rows, See see) {
    bool found = false;
    for (auto each = first_behind(rows.begin); each != all_.end() && each->first < rows.end(); ++each) {
      see(each->second);
      found = true;
    }
    return found;
  }
  void end_context(Handle context);
  std::size_t size() const { return all_.size(); }
  Identity new_identity() { return ++last_; }

private:
  std::map<std::uint64_t, Allocation>::iterator first_behind(std::uint64_t address);

  std::map<std::uint64_t, Allocation> all_; // by address; they do not overlap
  Identity last_ = 0;
};

} // namespace watch
