// SPDX-License-Identifier: MIT
#include <cuevent/launch_attribute.hpp>

#include "recording_fixture.hpp"

#include <type_traits>

using namespace cuevent;
using namespace test;

static_assert(std::is_same_v<decltype(programmatic_event(EventRef())), CUlaunchAttribute>);
static_assert(std::is_same_v<decltype(launch_completion_event(EventRef())), CUlaunchAttribute>);
static_assert(!noexcept(programmatic_event(EventRef())) && !noexcept(launch_completion_event(EventRef())));
static_assert(std::is_trivially_copyable_v<CUlaunchAttribute>);

TEST_CASE_METHOD(RecordingFixture,
                 "programmatic_event carries the event and its trigger and makes no driver call") {
  const DriverEvent event(context, EventFlags::blocking_sync);
  recording.calls();
  const CUlaunchAttribute at_end = programmatic_event(event);
  CHECK(at_end.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
  CHECK(at_end.value.programmaticEvent.event == event.native_handle());
  CHECK(at_end.value.programmaticEvent.flags == 0);
  CHECK(at_end.value.programmaticEvent.triggerAtBlockStart == 0);
  CHECK(programmatic_event(event, EventTrigger::block_start).value.programmaticEvent.triggerAtBlockStart ==
        1);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "launch_completion_event carries the event and makes no driver call") {
  const DriverEvent event(context);
  recording.calls();
  const CUlaunchAttribute attribute = launch_completion_event(event);
  CHECK(int(attribute.id) == 12); // CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, which CUDA 12.0 lacks
  // The values of both attributes begin with the event and the flags.
  CHECK(attribute.value.programmaticEvent.event == event.native_handle());
  CHECK(attribute.value.programmaticEvent.flags == 0);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "launch_completion_event names the driver's version if it is too old") {
  const DriverEvent event =
      DriverEvent::borrow(Context::borrow(context.native_handle(), RecordingDriver::driver(12020)),
                          event_handle(1), EventFlags::none);
  CHECK_THAT(refusal<NotSupported>([&] { launch_completion_event(event); }), ContainsSubstring("CUDA 12.3"));
  CHECK(programmatic_event(event).value.programmaticEvent.event == event.native_handle());
}

TEST_CASE_METHOD(
    RecordingFixture,
    "an event that a launch cannot record is refused, and the error says what to create instead") {
  for (const EventFlags flags :
       {EventFlags::timing, EventFlags::interprocess, EventFlags::timing | EventFlags::blocking_sync}) {
    const DriverEvent event(context, flags);
    CHECK_THAT(refusal<NotSupported>([&] { programmatic_event(event); }),
               ContainsSubstring("timing or interprocess") && ContainsSubstring("blocking_sync"));
    CHECK_THAT(refusal<NotSupported>([&] { launch_completion_event(event); }),
               ContainsSubstring("make it with EventFlags::none"));
  }
  const DriverEvent blocking(context, EventFlags::blocking_sync);
  refusal<NotSupported>([&] { launch_completion_event(blocking); });
  refusal<EmptyEvent>([&] { programmatic_event(EventRef()); });
  refusal<EmptyEvent>([&] { launch_completion_event(EventRef()); });
}
