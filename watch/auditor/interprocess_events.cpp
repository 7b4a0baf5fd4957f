// SPDX-License-Identifier: MIT
#include "auditor/interprocess_events.hpp"

#include "auditor/after_fork.hpp"

namespace watch {

namespace {

struct Known {
  CUevent event;
  CUcontext context;
};

Known known[4096]; // more are not checked
std::size_t used = 0;
std::atomic<std::size_t> count = 0; // of `known`, for readers without the lock

} // namespace

void add_interprocess_event(CUevent event, CUcontext context) {
  const Locked lock(cleared_by_fork->events);
  if (used == std::size(known)) return;
  known[used++] = {event, context};
  count.store(used, std::memory_order_relaxed);
}

void remove_interprocess_event(CUevent event) {
  if (count.load(std::memory_order_relaxed) == 0) return;
  const Locked lock(cleared_by_fork->events);
  for (std::size_t i = used; i-- > 0;)
    if (known[i].event == event) known[i] = known[--used];
  count.store(used, std::memory_order_relaxed);
}

CUcontext context_of_interprocess_event(CUevent event) {
  if (count.load(std::memory_order_relaxed) == 0) return nullptr;
  const Locked lock(cleared_by_fork->events);
  for (std::size_t i = used; i-- > 0;)
    if (known[i].event == event) return known[i].context;
  return nullptr;
}

} // namespace watch
