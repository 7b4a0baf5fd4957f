// SPDX-License-Identifier: MIT
#include "rules/source_changes.hpp"

#include "rules/object_text.hpp"

#include <algorithm>

namespace watch {

bool SourceChanges::is_only_of_host(const Allocation& source, std::uint32_t stream,
                                    const Order& order) const {
  return source.of_host && !source.is_managed &&
         (source.origin == Origin::call || source.origin == Origin::registered) &&
         std::ranges::none_of(actors_,
                              [&](const auto& each) { return each.second.may_be_before(stream, order); }) &&
         std::ranges::none_of(source.writers,
                              [&](const auto& each) { return each.second.is_pending(order); });
}

void SourceChanges::note_copy(std::uint64_t number, const Call& call, const Allocation* source,
                              const StreamOrder& order) {
  if (source == nullptr || !order.point() || order.is_held() ||
      !is_only_of_host(*source, order.point()->stream, order.order()))
    return;
  copies_[number] = {Site(call), source->begin, source->identity, source->made, source->writes, actors_seen_};
  while (copies_.size() > kept)
    copies_.erase(copies_.begin());
}

std::optional<Finding> SourceChanges::change_of(std::uint64_t number, MemoryRecords& memory,
                                                const std::optional<Call>& noticed) {
  const auto node = copies_.extract(number);
  if (node.empty()) return std::nullopt;
  const Copy& copy = node.mapped();
  const Allocation* const source = memory.at(copy.source);
  if (source == nullptr || source->identity != copy.memory || source->writes != copy.writes ||
      actors_seen_ != copy.actors)
    return std::nullopt;
  const Call call = copy.site.call();
  Finding finding{Rule::source_changed,
                  "the source of a copy on " + stream_text(call.stream()) +
                      " has changed, and the copy has not begun: nothing orders the change behind the copy",
                  call,
                  {}};
  const bool is_the_write = noticed && noticed->is_use_by_host();
  add(finding.earlier, is_the_write ? "the host writes here" : "the change was seen when this call began",
      noticed);
  finding.earlier.push_back({"the memory was allocated here", copy.made.call()});
  return finding;
}

} // namespace watch
