// SPDX-License-Identifier: MIT
#pragma once

#include "graph.hpp"
#include "stream.hpp"

namespace cuevent::sim {

struct Capture {
  unsigned long long id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  ThreadId thread = 0;
  Stream* origin = nullptr;
  std::vector<std::shared_ptr<Stream>> streams;   ///< the origin, then streams joined by a wait
  std::vector<std::shared_ptr<Stream>> destroyed; ///< forks that are gone; what they did stays unjoined
  std::shared_ptr<Graph> graph;
  std::vector<Node*> joined; ///< what the origin has waited for: it stays joined if the frontier changes
  bool ongoing = true;
  bool invalidated = false;

  bool active() const { return ongoing && !invalidated; }
};

/// Removes every stream from the capture.
void finish(Capture&);

/// Whether a stream has work that the origin does not depend on.
bool unjoined(const Capture&);

} // namespace cuevent::sim
