// SPDX-License-Identifier: MIT
#include "auditor/interprocess_events.hpp"

#include "auditor/state.hpp"

#include <iterator>

namespace watch {

void add_interprocess_event(CUevent event, CUcontext context) {
  InterprocessEvents& events = cleared_by_fork->interprocess_events;
  const Locked lock(events.lock);
  const std::size_t count = events.count.load(std::memory_order_relaxed);
  if (count == std::size(events.known)) return;
  events.known[count] = {event, context};
  events.count.store(count + 1, std::memory_order_relaxed);
}

void remove_interprocess_event(CUevent event) {
  InterprocessEvents& events = cleared_by_fork->interprocess_events;
  if (events.count.load(std::memory_order_relaxed) == 0) return;
  const Locked lock(events.lock);
  std::size_t count = events.count.load(std::memory_order_relaxed);
  for (std::size_t i = count; i-- > 0;)
    if (events.known[i].event == event) events.known[i] = events.known[--count];
  events.count.store(count, std::memory_order_relaxed);
}

CUcontext context_of_interprocess_event(CUevent event) {
  InterprocessEvents& events = cleared_by_fork->interprocess_events;
  if (events.count.load(std::memory_order_relaxed) == 0) return nullptr;
  const Locked lock(events.lock);
  for (std::size_t i = events.count.load(std::memory_order_relaxed); i-- > 0;)
    if (events.known[i].event == event) return events.known[i].context;
  return nullptr;
}

} // namespace watch
