// SPDX-License-Identifier: MIT
#include <cuevent/launch_attribute.hpp>

#include "core/event_errors.hpp"
#include "core/failure.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* launch_kernel = "cuLaunchKernelEx";

void check(EventRef event, EventFlags refused, const char* advice) {
  if (!event)
    throw_error(ErrorCause::empty_event, launch_kernel,
                "the event is empty: give the launch an event to record");
  if (event.leased()) fail_lease(launch_kernel);
  if ((event.flags() & refused) != EventFlags::none)
    throw_error(CUDA_ERROR_NOT_SUPPORTED, launch_kernel, advice);
}

} // namespace

CUlaunchAttribute programmatic_event(EventRef event, EventTrigger trigger) {
  check(event, EventFlags::timing | EventFlags::interprocess,
        "a launch cannot record an event with timing or interprocess: make it with EventFlags::none or "
        "blocking_sync");
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  attribute.value.programmaticEvent.event = event.native_handle();
  attribute.value.programmaticEvent.triggerAtBlockStart = trigger == EventTrigger::block_start ? 1 : 0;
  return attribute;
}

CUlaunchAttribute launch_completion_event(EventRef event) {
  check(event, EventFlags::timing | EventFlags::interprocess | EventFlags::blocking_sync,
        "a launch completion event cannot have timing, interprocess or blocking_sync: make it with "
        "EventFlags::none");
  if (event.driver().version() < 12030)
    throw_error(
        CUDA_ERROR_NOT_SUPPORTED, launch_kernel,
        "launch completion events need CUDA 12.3, and this driver is older: update the NVIDIA driver");
  CUlaunchAttribute attribute{};
#if CUDA_VERSION >= 12030
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attribute.value.launchCompletionEvent.event = event.native_handle();
#else // the header lacks the names; the value begins like programmaticEvent
  attribute.id = static_cast<CUlaunchAttributeID>(12);
  attribute.value.programmaticEvent.event = event.native_handle();
#endif
  return attribute;
}

}} // namespace cuevent::CUEVENT_ABI
