// SPDX-License-Identifier: MIT
#include "rules/guarded_targets.hpp"

#include "rules/object_text.hpp"

namespace watch {

void GuardedTargets::note_copy(std::uint64_t number, const Call& call, const Allocation* target) {
  copies_[number] = {Site(call), target == nullptr ? std::nullopt : std::optional(target->made)};
  while (copies_.size() > kept)
    copies_.erase(copies_.begin());
}

std::optional<Finding> GuardedTargets::use_of(const Call& record) {
  const auto node = copies_.extract(record.address);
  if (node.empty()) return std::nullopt;
  const Call copy = node.mapped().site.call();
  Call use = record;
  use.stack = static_cast<std::uint32_t>(record.flags);
  Finding finding{Rule::used_before_copied,
                  std::string("the host ") + (record.value != 0 ? "writes to" : "reads") +
                      " memory that a copy on " + stream_text(copy.stream()) +
                      " writes, and the copy is not done: the host has not waited for it",
                  use,
                  {}};
  finding.earlier.push_back({"the copy was submitted here", copy});
  if (node.mapped().made)
    finding.earlier.push_back({"the memory was allocated here", node.mapped().made->call()});
  return finding;
}

} // namespace watch
