// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cuevent::sim {

using Time = long long; ///< ns since the session began
inline constexpr Time never = -1;

struct Stream;
struct Event;

/// What a submission takes of a launch queue if the driver is notified of its end. On a device 20 to 60 of them fill the
/// queue; here 56.
inline constexpr std::size_t places_of_a_notification = 18;

/// What is to be done, without where and when: a stream operation and a graph node hold the same thing.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::string text;                ///< for the wait-for graph
  Time duration = 0;               ///< or `never`: until it is ended
  std::function<void()> effect;    ///< what it does to memory, at its end
  std::function<bool()> condition; ///< it may start once this holds
  CUhostFn function = nullptr;     ///< a host function ends when it returns
  void* data = nullptr;
  std::shared_ptr<Event> event;      ///< of event record and event wait nodes
  std::size_t places = 1;            ///< that it takes in the launch queue of the stream it is submitted to
  CUresult fault = CUDA_SUCCESS;     ///< ends with this fault
  std::shared_ptr<const void> owner; ///< kept until the work is done
};

/// One piece of work on its way. An event's record is the operation that recorded it: who asks later asks
/// that one, so recording the event again changes nothing for who asked before.
struct Operation {
  Work work;
  std::shared_ptr<Stream> stream;
  unsigned long long number = 0;
  enum class State { waiting, running, done } state = State::waiting;
  bool abandoned = false; ///< its context went away, or its process faulted, before it completed
  bool submitted = false; ///< by a call of its own, not as a node of a graph
  Time ended = never;
  std::vector<std::shared_ptr<Operation>> after; ///< emptied once done
  std::vector<Operation*> dependents;
  std::size_t unmet = 0;

  bool done() const { return state == State::done; }
};

} // namespace cuevent::sim
