// SPDX-License-Identifier: MIT
#include "rules/work_kinds.hpp"

namespace watch {

bool is_known_node(Work work) {
  return work == Work::kernel || work == Work::copy || work == Work::fill || work == Work::empty ||
         work == Work::host;
}

bool is_opaque(const Call& call, const std::vector<Part>& parts) {
  if (call.verb() != Verb::work && !changes_graph(call.verb())) return false;
  if (call.has(hides_memory)) return true;
  return call.work() != Work::kernel && call.work() != Work::empty && parts.empty();
}

namespace {

Work work_of(const Access& access) {
  const std::uint16_t entry = access.site.entry; // a process may show any number
  return entry < entry_count ? entry_data[entry].work : Work::none;
}

} // namespace

bool is_allocation(const Access& access) { return work_of(access) == Work::allocation; }

const char* verb_of(const Access& access) {
  if (is_allocation(access)) return "an allocation";
  if (access.use != Use::copied) return "a kernel";
  const Work work = work_of(access);
  if (work == Work::graph) return "a graph";
  return work == Work::fill ? "a memset" : "a copy";
}

} // namespace watch
