// Launch attributes: events that a kernel launch itself records.
#pragma once

#include <cuevent/driver_event.hpp>

#pragma GCC visibility push(default)
namespace cuevent {

/// When a launch records its programmatic event.
enum class EventTrigger {
  program,     ///< once every block has triggered it (griddepcontrol.launch_dependents) or ended
  block_start, ///< once every block has started
};

/// The attribute of cuLaunchKernelEx by which the launch records `event` at that point. In a captured
/// stream the event forks the capture, as a plain record does. The event outlives the launch. Driver
/// attribute: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT. Throws EmptyEvent, and NotSupported for an event made
/// with timing or interprocess, which the driver would refuse without saying why.
/// Thread-safety: any thread.
/// Context: calls no driver function; the launch wants an event of the stream's context.
/// During capture: harmless.
CUlaunchAttribute programmatic_event(const DriverEvent& event, EventTrigger trigger = EventTrigger::program);

/// The attribute by which the launch records `event` once all its blocks have begun to run. Otherwise as
/// programmatic_event(), but blocking_sync is refused too, and everything where the driver is older than CUDA
/// 12.3.
/// Driver attribute: CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT (CUDA 12.3).
CUlaunchAttribute launch_completion_event(const DriverEvent& event);

} // namespace cuevent
#pragma GCC visibility pop
