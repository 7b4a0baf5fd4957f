// SPDX-License-Identifier: MIT
// Copies to pinned memory that the host uses before the copies are done. The auditor has asked the driver
// after the use, and the copy was pending still: no order can make the use right.
#pragma once

#include "rules/finding.hpp"
#include "rules/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace watch {

class GuardedTargets {
public:
  /// Null: the memory is not known.
  void note_copy(std::uint64_t number, const Call& call, const Allocation* target);
  /// Nothing if the copy is not known, or was reported.
  std::optional<Finding> use_of(const Call& record);

private:
  static constexpr std::size_t kept = 1024; // more than the auditor guards

  struct Copy {
    Site site;
    std::optional<Site> made; // its memory
  };
  std::map<std::uint64_t, Copy> copies_; // by the numbers that the auditor gives them
};

} // namespace watch
