// SPDX-License-Identifier: MIT
#include "capture.hpp"

#include <set>

namespace cuevent::sim {

void finish(Capture& capture) {
  capture.ongoing = false;
  for (auto& stream : capture.streams) {
    stream->capture.reset();
    stream->frontier.clear();
  }
  capture.streams.clear();
  capture.destroyed.clear();
  capture.graph.reset(); // the caller owns the graph now: events recorded in the capture must not keep it
}

bool unjoined(const Capture& capture) {
  std::set<const Node*> reached;
  std::vector<const Node*> next(capture.origin->frontier.begin(), capture.origin->frontier.end());
  next.insert(next.end(), capture.joined.begin(), capture.joined.end());
  while (!next.empty()) {
    const Node* node = next.back();
    next.pop_back();
    if (reached.insert(node).second) next.insert(next.end(), node->after.begin(), node->after.end());
  }
  for (const auto& streams : {capture.streams, capture.destroyed})
    for (auto& stream : streams)
      for (const Node* node : stream->frontier)
        if (!reached.contains(node)) return true;
  return false;
}

} // namespace cuevent::sim
