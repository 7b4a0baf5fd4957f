// How events get onto the list of the retired. Inside the library only.
#pragma once

#include <cuevent/retired_events.hpp>

#include <atomic>

namespace cuevent {

/// An event that waits to be destroyed, or will wait once a graph is done with it.
struct RetiredEvent {
  DriverEvent event;
  RetiredEvent* next = nullptr;
};

/// Puts it on the list. Lock-free, and no driver call: a graph's destructor callback may do it.
void push_retired(RetiredEvent* retired) noexcept;

/// The newest on the list. Null, as mostly, means that there is nothing to collect.
extern std::atomic<RetiredEvent*> retired_events;

inline void collect_if_any() noexcept {
  if (retired_events.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    collect();
}

} // namespace cuevent
