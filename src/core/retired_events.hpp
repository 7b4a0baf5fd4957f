// SPDX-License-Identifier: MIT
// The lists of retired events and objects. Internal to the library.
#pragma once

#include <cuevent/retired_events.hpp>

#include <atomic>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

/// An event that waits to be destroyed, or that a graph will release later.
struct RetiredEvent : RetiredObject {
  RetiredEvent() noexcept { end = destroy; }
  void hold(DriverEvent&& given) noexcept {
    event = std::move(given);
    holds = true;
  }

  DriverEvent event;

private:
  static void destroy(RetiredObject* self);
};

class RetiredList {
public:
  /// Lock-free and without driver calls. A graph's destructor callback may call push().
  void push(RetiredObject* retired) noexcept;

  /// Ends everything in the list and returns how much there was.
  std::size_t destroy_all() noexcept;

  /// The number of entries that hold something.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

private:
  std::atomic<RetiredObject*> newest_{nullptr};
  std::atomic<std::size_t> size_{0};
};

/// Events that the program has retired.
extern RetiredList retired_by_program;

/// Events that graphs have released. The program's retired events are in a separate list: a thread
/// that destroys a graph destroys these events, but not the program's.
extern RetiredList released_by_graphs;

/// Other objects and callbacks that graphs have released. Only destroy_retired() ends them.
extern RetiredList objects_of_graphs;

/// The number of RetireScopes that the thread is in.
extern thread_local constinit int retire_scopes [[gnu::tls_model("initial-exec")]];

}} // namespace cuevent::CUEVENT_ABI
