// SPDX-License-Identifier: MIT
// How the boundaries of a stream get their events recorded. Inside the library only.
#pragma once

#include "core/status.hpp"
#include "timing/side_stream_budget.hpp"

#include <cuevent/driver_event.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Records timed events in a stream, or in a side stream that waits for it.
///
/// A timed event between two kernels holds up the second one: the event is recorded once the first
/// kernel has left the device, and only then the second one starts. An event without timing does
/// not hold up anything. So a side stream waits for an untimed event and records the timed one.
class BoundaryRecorder {
public:
  BoundaryRecorder() noexcept = default;
  /// With a side stream if there is a permit for it.
  BoundaryRecorder(CUstream stream, CUstream side_stream, SideStreamPermit permit) noexcept;

  /// In the current context, which must be `context`. Driver function: cuEventCreate, for a side
  /// stream.
  Status create(const Context& context) noexcept;

  /// Driver functions: cuEventRecord, for a side stream also cuStreamWaitEvent.
  Status record(DriverEvent& event) noexcept;

  /// Adds a node that records the event to the capture that the stream is in. `previous` is the
  /// last such node of the stream, unless later work of the capture comes after it; null if there
  /// is none.
  /// Driver functions: cuGraphAddEventRecordNode with a side stream if possible, else
  /// cuEventRecordWithFlags.
  Status capture(DriverEvent& event, CUgraph graph, CUgraphNode& previous) const;

  bool has_side_stream() const noexcept { return side_stream_ != nullptr; }
  /// The permit counts for other timers from now on. The side stream itself stays.
  void give_back_permit() noexcept { permit_.reset(); }

private:
  CUstream stream_ = nullptr, side_stream_ = nullptr;
  SideStreamPermit permit_;
  DriverEvent reached_; // what the side stream waits for
};

}} // namespace cuevent::CUEVENT_ABI
