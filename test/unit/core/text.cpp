// SPDX-License-Identifier: MIT
#include <cuevent/text.hpp>

#include "recording_fixture.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/ipc.hpp>
#include <cuevent/launch_attribute.hpp>
#include <cuevent/stage_timer.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <iomanip>
#include <sstream>
#include <utility>

using namespace cuevent;
using namespace test;

namespace {

/// What a stream writes, which must be what to_string() returns.
template <class Value>
std::string streamed(const Value& value) {
  std::ostringstream out;
  out << value;
  CHECK(out.str() == to_string(value));
  return out.str();
}

/// What the C library writes for a pointer.
std::string pointer(const void* handle) {
  std::ostringstream out;
  out << handle;
  return out.str();
}

template <class Enum>
void check_enumerators(const char* type, std::initializer_list<std::pair<Enum, const char*>> names) {
  int next = 0;
  for (const auto& [value, name] : names) {
    CHECK(int(value) == next++);
    CHECK(streamed(value) == name);
  }
  CHECK(streamed(Enum(next)) == type + ("(" + std::to_string(next) + ")"));
}

} // namespace

TEST_CASE("flags are written with the names of their bits") {
  CHECK(streamed(EventFlags::none) == "none");
  CHECK(streamed(EventFlags::blocking_sync) == "blocking_sync");
  CHECK(streamed(EventFlags::interprocess | EventFlags::retire) == "interprocess | retire");
  CHECK(streamed(EventFlags::timing | EventFlags(0x1008)) == "timing | 0x1008");
  CHECK(streamed(RecordFlags::none) == "none");
  CHECK(streamed(RecordFlags::external) == "external");
  CHECK(streamed(RecordFlags::external_in_capture) == "external_in_capture");
  CHECK(streamed(WaitFlags::external) == "external");
  CHECK(streamed(WaitFlags::external_in_capture | WaitFlags(2)) == "external_in_capture | 0x2");
}

TEST_CASE("enumerators are written with their names, and other values with their number") {
  check_enumerators<CaptureMode>("CaptureMode", {{CaptureMode::global, "global"},
                                                 {CaptureMode::per_thread, "per_thread"},
                                                 {CaptureMode::relaxed, "relaxed"}});
  check_enumerators<CaptureStatus>("CaptureStatus", {{CaptureStatus::none, "none"},
                                                     {CaptureStatus::active, "active"},
                                                     {CaptureStatus::invalidated, "invalidated"}});
  check_enumerators<ErrorKind>("ErrorKind", {{ErrorKind::success, "success"},
                                             {ErrorKind::not_ready, "not_ready"},
                                             {ErrorKind::usage, "usage"},
                                             {ErrorKind::unsupported, "unsupported"},
                                             {ErrorKind::capture, "capture"},
                                             {ErrorKind::context_lost, "context_lost"},
                                             {ErrorKind::out_of_resources, "out_of_resources"},
                                             {ErrorKind::device_fault, "device_fault"},
                                             {ErrorKind::driver_unavailable, "driver_unavailable"},
                                             {ErrorKind::other, "other"}});
  check_enumerators<EventTrigger>(
      "EventTrigger", {{EventTrigger::program, "program"}, {EventTrigger::block_start, "block_start"}});
  check_enumerators<SpanEscape>(
      "SpanEscape", {{SpanEscape::unknown, "unknown"}, {SpanEscape::no, "no"}, {SpanEscape::yes, "yes"}});
  check_enumerators<StageEscapes>("StageEscapes",
                                  {{StageEscapes::ignored, "ignored"}, {StageEscapes::checked, "checked"}});
  check_enumerators<StageRanges>("StageRanges", {{StageRanges::none, "none"}, {StageRanges::nvtx, "nvtx"}});
  check_enumerators<TimelineStatus>("TimelineStatus", {{TimelineStatus::active, "active"},
                                                       {TimelineStatus::participant_died, "participant_died"},
                                                       {TimelineStatus::abandoned, "abandoned"}});
  check_enumerators<WaitOrder>(
      "WaitOrder", {{WaitOrder::after_signal, "after_signal"}, {WaitOrder::before_signal, "before_signal"}});
  check_enumerators<WhenFull>("WhenFull", {{WhenFull::drop, "drop"}, {WhenFull::wait, "wait"}});
  CHECK(streamed(CaptureMode(-1)) == "CaptureMode(-1)");
}

TEST_CASE("a result is written with its name and number, as its message begins") {
  CHECK(cuevent::to_string(CUDA_SUCCESS) == "CUDA_SUCCESS (0)");
  CHECK(cuevent::to_string(CUDA_ERROR_NOT_READY) == "CUDA_ERROR_NOT_READY (600)");
  CHECK(cuevent::to_string(CUresult(987)) == "CUresult 987");
  for (const int code : {0, 400, 987})
    CHECK(driver_category().message(code).starts_with(cuevent::to_string(CUresult(code)) + ": "));
}

TEST_CASE("the ids of a timer are written with what they number") {
  CHECK(streamed(StageId(3)) == "stage 3");
  CHECK(streamed(StreamId(0)) == "stream 0");
}

TEST_CASE_METHOD(RecordingFixture, "contexts, drivers and events are written without a driver call") {
  const DriverEvent plain(context);
  const DriverEvent timing(context, EventFlags::timing | EventFlags::blocking_sync);
  EventPool pool(context);
  PooledEvent lease = pool.acquire();
  recording.calls();

  const std::string of_context =
      "context " + pointer(context.native_handle()) + " (id " + std::to_string(context.id()) + ")";
  CHECK(streamed(context) == of_context);
  CHECK(streamed(Context()) == "no context");
  CHECK(streamed(driver) == "driver of CUDA " + std::to_string(driver.version() / 1000) + "." +
                                std::to_string(driver.version() % 1000 / 10));
  CHECK(streamed(Driver()) == "no driver");

  const std::string handle = pointer(timing.native_handle());
  CHECK(streamed(plain) == "event " + pointer(plain.native_handle()) + ", " + of_context);
  CHECK(streamed(timing) == "event " + handle + " (blocking_sync | timing), " + of_context);
  CHECK(streamed(EventRef(timing)) == streamed(timing));
  CHECK(streamed(EventRef(timing.native_handle(), driver)) == "event " + handle); // nothing else is known
  CHECK(streamed(DriverEvent()) == "no event");
  CHECK(streamed(EventRef()) == "no event");
  CHECK(streamed(lease) == "leased event " + pointer(lease.native_handle()) + ", " + of_context);
  CHECK(streamed(std::move(lease).share()).starts_with("leased event 0x"));
  CHECK(streamed(PooledEvent()) == "no event");
  CHECK(recording.calls().empty());
}

TEST_CASE("an IpcHandle is written as its to_string()") {
  IpcHandle handle;
  handle.bytes[0] = std::byte{0xa5};
  CHECK(streamed(handle) == handle.to_string());
}

TEST_CASE("a stream's width applies to the whole text, and only to types that have one") {
  std::ostringstream out;
  out << std::setw(8) << CaptureMode::relaxed << '|';
  CHECK(out.str() == " relaxed|");
  static_assert(HasText<DriverEvent>::value && HasText<WhenFull>::value);
  static_assert(!HasText<CUresult>::value && !HasText<int>::value && !HasText<std::string>::value);
}

#ifdef __cpp_lib_format // Debian 12's compilers do not have it
TEST_CASE_METHOD(RecordingFixture, "std::format takes the values that a stream takes") {
  const DriverEvent event(context);
  CHECK(std::format("{}", event) == to_string(event));
  CHECK(std::format("{}, {}", context, driver) == to_string(context) + ", " + to_string(driver));
  CHECK(std::format("[{:>8}]", CaptureMode::relaxed) == "[ relaxed]");
  CHECK(std::format("{:.6}", EventFlags::timing | EventFlags::retire) == "timing");
}
#endif
