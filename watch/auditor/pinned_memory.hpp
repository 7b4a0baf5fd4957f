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
    bool is_plain;         // the host may read and write all of it, and runs none of it
  };
  Lock lock;
  std::uint32_t count;
  Range ranges[limit]; // by their begins; they do not overlap
};

/// With Feature::host_uses, `is_of_program` memory is looked at: the program may have protected it.
void add_pinned(std::uint64_t begin, std::size_t size, std::uint64_t context, bool is_of_program);
/// Before the driver gives it back.
void forget_pinned(std::uint64_t begin);
/// Before a context ends, with its memory. 0: it may be any.
void forget_pinned_of(std::uint64_t context);
/// The program has protected this memory in some way.
void note_protection(std::uint64_t begin, std::uint64_t end);
/// The caller holds the lock.
bool is_pinned(std::uint64_t begin, std::uint64_t end);
/// The same for memory that may be protected, and then be given back.
bool is_plain(std::uint64_t begin, std::uint64_t end);

} // namespace watch
