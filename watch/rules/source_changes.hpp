// SPDX-License-Identifier: MIT
// Copies whose pinned source changes before they begin: the auditor tells that it has changed, and the order
// tells whether that may be right, because work before the copy writes it or waits for the host.
#pragma once

#include "rules/finding.hpp"
#include "rules/memory_records.hpp"
#include "rules/pending_work.hpp"
#include "rules/stream_order.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace watch {

class SourceChanges {
public:
  /// Work that may write any memory of the host, or wait for the host: kernels that get a pointer to such
  /// memory, and what is not known.
  void note_actor(const Point& point, const Order& order) {
    if (actors_[point.stream].add(point, order)) ++actors_seen_;
  }
  /// The auditor looks at the source of a copy that was submitted at this point. Null: it is not known.
  void note_copy(std::uint64_t number, const Call& call, const Allocation* source, const StreamOrder& order);
  /// The source has changed, and the copy has not begun. `noticed`: the call before which the change was
  /// seen, if that was a call of the program, or the write itself.
  std::optional<Finding> change_of(std::uint64_t number, MemoryRecords& memory,
                                   const std::optional<Call>& noticed);

private:
  static constexpr std::size_t kept = 1024; // more than the auditor looks at

  struct Copy {
    Site site;
    std::uint64_t source = 0; // its address
    Identity memory = 0;
    Site made;
    std::uint64_t writes = 0, actors = 0; // that were seen until then
  };
  bool is_only_of_host(const Allocation& source, std::uint32_t stream, const Order& order) const;

  std::map<std::uint64_t, Copy> copies_; // which nothing but the host may write
  std::map<std::uint32_t, PendingWork> actors_;
  std::uint64_t actors_seen_ = 0;
};

} // namespace watch
