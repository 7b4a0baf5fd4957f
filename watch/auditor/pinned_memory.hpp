// SPDX-License-Identifier: MIT
// The pinned memory that calls of the program have allocated or registered, and not given back yet. Who reads
// it holds `lock`, and whoever is about to free it takes it out first, so it is not read later.
#pragma once

#include "auditor/lock.hpp"

#include <cstddef>
#include <cstdint>

namespace watch {

struct PinnedMemory {
  static constexpr std::uint32_t limit = 4096; // of more, the rest is not known

  struct Range {
    std::uint64_t begin, end;
    std::uint64_t context; // that was current, 0 if it is not known
  };
  Lock lock;
  std::uint32_t count;
  Range ranges[limit]; // by their begins; they do not overlap
};

void add_pinned(std::uint64_t begin, std::size_t size, std::uint64_t context);
/// Before the driver gives it back.
void forget_pinned(std::uint64_t begin);
/// Before a context ends, with its memory. 0: it may be any.
void forget_pinned_of(std::uint64_t context);
/// The caller holds the lock.
bool is_pinned(std::uint64_t begin, std::uint64_t end);

} // namespace watch
