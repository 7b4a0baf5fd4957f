// SPDX-License-Identifier: MIT
// An event of a program: a DriverEvent, or a lease.
//
// The event of a lease may have been recorded before, by a program that has given it back. Until the lease
// records it, cuevent refuses what depends on that. What the driver would answer for a new event is then
// answered by a stand-in, an event of the same kind that is never recorded. Without it, the answers of the
// program could not be those that were recorded.
#pragma once

#include "through_cuevent.hpp"

#include <cuevent/driver_event.hpp>
#include <cuevent/event_pool.hpp>

#include <utility>

namespace on_cuevent {

class ProgramEvent {
public:
  ProgramEvent() = default;
  explicit ProgramEvent(cuevent::DriverEvent own) : own_(std::move(own)) {}
  ProgramEvent(cuevent::PooledEvent lease, CUevent stand_in)
      : lease_(std::move(lease)), stand_in_(stand_in) {}

  bool leased() const { return lease_ || shared_; }
  cuevent::EventRef lease() const { return shared_ ? cuevent::EventRef(shared_) : cuevent::EventRef(lease_); }
  bool recorded() const { return shared_ ? shared_.recorded() : lease_.recorded(); }
  cuevent::DriverEvent& own() { return own_; }
  const cuevent::DriverEvent& event() const {
    return shared_ ? shared_.event() : lease_ ? lease_.event() : own_;
  }
  CUevent stand_in() const { return stand_in_; } ///< the program's name of the event; null for a DriverEvent

  /// The event that the driver has to be asked about.
  CUevent handle() const {
    return !leased() ? own_.native_handle() : recorded() ? lease().native_handle() : stand_in_;
  }

  void share() { shared_ = std::move(lease_).share(); }
  void mark_recorded() { shared_ ? shared_.mark_recorded() : lease_.mark_recorded(); }

  /// A graph refers to the event from now on, so a lease has to end: the event leaves its pool. A shared
  /// lease cannot be detached. It is kept until the program destroys the event, after the graph.
  void keep_for_a_graph() {
    if (!leased() || (shared_ && recorded())) return;
    if (recorded()) {
      own_ = std::move(lease_).detach();
      return;
    }
    own_ = cuevent::DriverEvent::from_native_handle(event().context(), stand_in_, event().flags());
    ++created;
    stand_in_ = nullptr;
    lease_ = {};
    shared_ = {};
  }

private:
  cuevent::DriverEvent own_;
  cuevent::PooledEvent lease_;
  cuevent::SharedEvent shared_;
  CUevent stand_in_ = nullptr;
};

} // namespace on_cuevent
