// SPDX-License-Identifier: MIT
// How events get onto the lists of the retired. Inside the library only.
#pragma once

#include <cuevent/retired_events.hpp>

#include <atomic>

namespace cuevent {

/// An event that waits to be destroyed, or will wait once a graph is done with it.
struct RetiredEvent {
  DriverEvent event;
  RetiredEvent* next = nullptr;
};

class RetiredList {
public:
  /// Lock-free, and no driver call: a graph's destructor callback may do it.
  void push(RetiredEvent* retired) noexcept;

  /// Destroys the events and returns how many there were.
  std::size_t collect() noexcept;

  /// How many there are.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

private:
  std::atomic<RetiredEvent*> newest_{nullptr};
  std::atomic<std::size_t> size_{0};
};

/// What graphs are done with. Apart from what the program has retired, for that may be events which the thread
/// that now ends a graph must not destroy.
extern RetiredList released_by_graphs;

/// How many RetireScopes the thread is in.
extern thread_local constinit int retire_scopes [[gnu::tls_model("initial-exec")]];

} // namespace cuevent
