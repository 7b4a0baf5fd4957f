// SPDX-License-Identifier: MIT
// Launch attributes: events that a kernel launch records.
#pragma once

#include <cuevent/event_ref.hpp>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// When a launch records its programmatic event.
enum class EventTrigger {
  program,     ///< when every block has triggered it (griddepcontrol.launch_dependents) or ended
  block_start, ///< when every block has started
};

/// An attribute for cuLaunchKernelEx. The launch records `event` at the point that `trigger`
/// names. In a captured stream, a stream that waits for the event is forked into the capture, as
/// after a plain record. The event must outlive the launch and belong to the stream's context.
/// Driver attribute: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT. No driver call. Throws EmptyEvent, and
/// NotSupported for an event with timing or interprocess, and for an event on lease: the attribute could be
/// used again after the end of the lease.
/// Thread-safety: any thread.
/// Context: needs none and changes none.
/// During capture: harmless.
CUlaunchAttribute programmatic_event(EventRef event, EventTrigger trigger = EventTrigger::program);
CUlaunchAttribute programmatic_event(DriverEvent&&, EventTrigger = {}) = delete; // ends before the launch

/// An attribute for cuLaunchKernelEx. The launch records `event` once all its blocks have begun to
/// run. Otherwise like programmatic_event(). Driver attribute:
/// CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT (CUDA 12.3). Throws EmptyEvent, NotSupported for an
/// event with timing, interprocess or blocking_sync, for an event on lease, and if the driver is older than
/// CUDA 12.3.
CUlaunchAttribute launch_completion_event(EventRef event);
CUlaunchAttribute launch_completion_event(DriverEvent&&) = delete; // the event ends before the launch

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
