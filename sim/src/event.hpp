// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"

namespace cuevent::sim {

struct Capture;
struct Node;

/// What recording changes. An event opened from an IPC handle shares it with the exporter's.
struct Recording {
  std::shared_ptr<Operation> operation; ///< null: never recorded
  std::shared_ptr<Capture> capture;     ///< last recorded in this capture
  std::vector<Node*> frontier;          ///< what that record came after
};

struct Event : Object {
  Birthplace home;
  unsigned flags = 0;
  bool imported = false;
  bool destroyed = false;
  std::shared_ptr<Recording> recording;

  bool timed() const { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }
  bool interprocess() const { return (flags & CU_EVENT_INTERPROCESS) != 0; }
};

} // namespace cuevent::sim
