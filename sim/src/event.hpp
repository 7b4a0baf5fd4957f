// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"
#include "event_page.hpp"

#include <algorithm>

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

  // Of interprocess events
  std::shared_ptr<EventPage> page; ///< null unless another process of the system may know the event
  std::uint64_t records = 0;       ///< the last one that this process knows, of any process
  std::uint64_t completed = 0;     ///< the last one of this process that is complete
  bool left_behind = false;        ///< the process that exported the event had ended before it was opened

  bool is_pending() const {
    return (operation && !operation->done()) || (page && !page->is_complete(page->last()));
  }
  std::uint64_t begin_record() { return records = page ? page->begin_record() : records + 1; }
  void end_record(std::uint64_t number) {
    completed = std::max(completed, number);
    if (page) page->end_record(number);
  }
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
