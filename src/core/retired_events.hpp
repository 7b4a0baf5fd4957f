// SPDX-License-Identifier: MIT
// The lists of retired events. Internal to the library.
#pragma once

#include <cuevent/retired_events.hpp>

#include <atomic>

namespace cuevent {

/// An event that waits to be destroyed, or that a graph will release later.
struct RetiredEvent {
  DriverEvent event;
  RetiredEvent* next = nullptr;
};

class RetiredList {
public:
  /// Lock-free and without driver calls. A graph's destructor callback may call push().
  void push(RetiredEvent* retired) noexcept;

  /// Destroys the events and returns how many there were.
  std::size_t destroy_all() noexcept;

  /// The number of events in the list.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

private:
  std::atomic<RetiredEvent*> newest_{nullptr};
  std::atomic<std::size_t> size_{0};
};

/// Events that graphs have released. The program's retired events are in a separate list: a thread
/// that destroys a graph destroys these events, but not the program's.
extern RetiredList released_by_graphs;

/// The number of RetireScopes that the thread is in.
extern thread_local constinit int retire_scopes [[gnu::tls_model("initial-exec")]];

} // namespace cuevent
