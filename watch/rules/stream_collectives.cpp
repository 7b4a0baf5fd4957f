// SPDX-License-Identifier: MIT
// Which collectives StreamWork has seen, and how far the streams are in them.
#include "rules/stream_work.hpp"

#include "rules/object_text.hpp"

namespace watch {

namespace {

constexpr std::size_t functions_kept = 65'536; // a program may load modules again and again

} // namespace

const std::string& StreamWork::nccl_name(Handle function) {
  static const std::string none;
  if (function == 0 || !kernel_name_) return none;
  if (nccl_names_.size() >= functions_kept) nccl_names_.clear();
  const auto [found, is_new] = nccl_names_.try_emplace(function);
  if (is_new)
    if (std::string name = kernel_name_(function); nccl_work_of(name) != NcclWork::none)
      found->second = std::move(name);
  return found->second;
}

void StreamWork::add_collective(const Call& call, Stream& on) {
  std::string name;
  if (call.verb() == Verb::graph_launch) {
    // A replay counts as one collective, whose name says what the graph has.
    const auto graph = captured_.find(world_.submission_of(call).graph);
    if (graph == captured_.end()) return;
    name = "replay of " + std::to_string(graph->second.count()) + " collectives, the last one ";
    name.append(graph->second.last().back().name).append(" [");
    name.append(hexadecimal(graph->second.hash())).append("]");
  } else {
    const std::string& kernel = nccl_name(call.function);
    if (nccl_work_of(kernel) != NcclWork::collective) return;
    name = collective_name(kernel);
  }
  if (known(on).is_capturing()) {
    if (!captured_.contains(known(on).capture)) // captures whose graphs are gone are not replayed
      std::erase_if(captured_, [](const auto& each) { return each.first.use_count() == 1; });
    return captured_[known(on).capture].add(0, std::move(name));
  }
  if (on.collectives.count() == 0) on.first_collective = submitted_;
  on.collectives.add(on.calls, std::move(name));
}

std::vector<CollectivePosition> StreamWork::collective_positions() const {
  std::vector<CollectivePosition> positions;
  for (const auto& [number, stream] : streams_) {
    CollectivePosition& position = positions.emplace_back();
    position.sequence = &stream.collectives;
    position.first = stream.first_collective;
    position.reached = stream.collectives.among_first(stream.calls_reached);
    position.is_pending = stream.probed_end() > stream.reached;
    position.reached_next = position.reached;
    position.next = NcclWork::none;
    if (stream.places.empty()) continue;
    const Position last = stream.first_probed().value_or(stream.end() - 1);
    std::uint64_t calls = stream.calls_reached;
    for (Position each = stream.reached; each <= last; ++each) {
      const Place& next = stream.place(each);
      calls += next.count;
      for (const Submission& call : next.calls)
        if (const auto name = nccl_names_.find(call.object);
            name != nccl_names_.end() && !name->second.empty())
          position.next = nccl_work_of(name->second);
    }
    position.reached_next = stream.collectives.among_first(calls);
    if (position.reached_next > position.reached) position.next = NcclWork::collective;
  }
  return positions;
}

} // namespace watch
