// SPDX-License-Identifier: MIT
// The blocks of PyTorch's allocator. A free block is given away again at once, and nothing waits for its
// uses. So whoever uses a block has to come after the uses of the blocks that were there before.
#pragma once

#include "rules/memory.hpp"

#include <map>
#include <vector>

namespace watch {

class Blocks {
public:
  /// A record of MemoryPart::block_allocated, whose block lies in this memory. Identity 0: it may be used
  /// after its free.
  void allocate(const Call& record, const Allocation& in, Identity identity, const Order& order);
  /// A record of MemoryPart::block_freed. Returns the block; its size is 0 if it was not known.
  Allocation free(const Call& record, const Order& order);
  /// Its memory is gone, and all that was in it.
  void forget(std::uint64_t begin, std::uint64_t size);
  void end_context(Handle context) { live_.end_context(context); }

  /// Null if no live block is there.
  Allocation* at(std::uint64_t address) { return live_.at(address); }
  template <class See>
  bool for_each(const Rows& rows, See see) {
    return live_.for_each(rows, see);
  }

private:
  /// A range that no block has, and its uses that the host has not waited for.
  struct Free {
    std::uint64_t end;
    std::vector<FormerUse> uses;
  };
  void forget_known(const Order& order);
  std::vector<FormerUse> take(std::uint64_t begin, std::uint64_t size, const Order& order);

  Memory live_;
  std::map<std::uint64_t, Free> free_; // by their begin; they do not overlap
};

} // namespace watch
