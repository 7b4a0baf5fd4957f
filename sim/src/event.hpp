// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"

namespace cuevent::sim {

struct Capture;
struct Node;

/// The state that recording changes. An event opened from an IPC handle shares this state with the
/// exporter's event.
struct Recording {
  std::shared_ptr<Operation> operation; ///< null: never recorded
  std::shared_ptr<Capture> capture;     ///< the capture of the last record
  std::vector<Node*> frontier;          ///< the nodes before that record
  bool by_node = false;                 ///< the last record is a node of a launch
  bool taken = false;                   ///< by an interprocess event that was not destroyed
};

struct Event : Object {
  Birthplace home;
  unsigned flags = 0;
  bool imported = false;
  bool destroyed = false;
  unsigned long long exported = 0; ///< the n-th event for which a handle between processes was made
  std::shared_ptr<Recording> recording;

  bool timed() const { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }
  bool interprocess() const { return (flags & CU_EVENT_INTERPROCESS) != 0; }
};

} // namespace cuevent::sim
