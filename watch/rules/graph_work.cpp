// SPDX-License-Identifier: MIT
#include "rules/graph_work.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t nodes_compared = 1024; // with copies or memsets: in larger graphs, findings are lost

bool has_copies(const BuiltNode& node) {
  return std::any_of(node.used.accesses.begin(), node.used.accesses.end(),
                     [](const Access& access) { return access.use == Use::copied; });
}

bool are_a_conflict(const Access& one, const Access& other) {
  return one.use == Use::copied && other.use == Use::copied && (one.writes || other.writes) &&
         one.rows.overlaps(other.rows);
}

auto content_of(const Access& access) {
  return std::tuple(access.rows.begin, access.rows.width, access.rows.pitch, access.rows.count, access.writes,
                    access.use, access.memory);
}

} // namespace

void Used::add(const Used& other) {
  accesses.insert(accesses.end(), other.accesses.begin(), other.accesses.end());
  HostEffects::add(other);
}

void Used::drop_repeated() {
  std::stable_sort(accesses.begin(), accesses.end(),
                   [](const Access& a, const Access& b) { return content_of(a) < content_of(b); });
  const auto rest = std::unique(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    return content_of(a) == content_of(b);
  });
  accesses.erase(rest, accesses.end());
}

void GraphWork::add_node(Handle node, Used used_by_it, const std::vector<Handle>& after) {
  is_stale_ = true;
  index_[node] = nodes.size();
  nodes.push_back({std::move(used_by_it), {}});
  for (const Handle before : after)
    add_dependency(before, node);
}

void GraphWork::add_dependency(Handle from, Handle to) {
  const auto first = index_.find(from), second = index_.find(to);
  if (first == index_.end() || second == index_.end())
    is_known = false;
  else
    nodes[second->second].after.push_back(first->second);
}

bool GraphWork::change_node(Handle node, Used used_by_it) {
  const auto found = index_.find(node);
  if (found == index_.end()) return false;
  is_stale_ = true;
  nodes[found->second].used = std::move(used_by_it);
  return true;
}

void GraphWork::gather() {
  if (!std::exchange(is_stale_, false)) return;
  used = {};
  for (const BuiltNode& node : nodes)
    used.add(node.used);
  used.drop_repeated();
}

GraphWork GraphWork::clone() const {
  GraphWork copy = *this;
  copy.index_.clear();
  return copy;
}

std::vector<bool> GraphWork::nodes_before(std::size_t node) const {
  std::vector<bool> before(nodes.size());
  std::vector<std::size_t> left{node};
  while (!left.empty()) {
    const std::size_t next = left.back();
    left.pop_back();
    for (const std::size_t each : nodes[next].after)
      if (!before[each]) {
        before[each] = true;
        left.push_back(each);
      }
  }
  return before;
}

std::vector<std::pair<Access, Access>> GraphWork::unordered_copies() const {
  std::vector<std::pair<std::size_t, std::vector<bool>>> copies;
  for (std::size_t i = 0; i < nodes.size() && copies.size() < nodes_compared; ++i)
    if (has_copies(nodes[i])) copies.emplace_back(i, nodes_before(i));
  std::vector<std::pair<Access, Access>> pairs;
  for (std::size_t i = 0; i < copies.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto& [later, before_later] = copies[i];
      const auto& [earlier, before_earlier] = copies[j];
      if (before_later[earlier] || before_earlier[later]) continue;
      for (const Access& one : nodes[earlier].used.accesses)
        for (const Access& other : nodes[later].used.accesses)
          if (are_a_conflict(one, other)) pairs.emplace_back(one, other);
    }
  return pairs;
}

} // namespace watch
