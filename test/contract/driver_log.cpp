// SPDX-License-Identifier: MIT
#include <cuevent/driver_log.hpp>

#include <cuevent/capture.hpp>
#include <cuevent/explain.hpp>

#include "stream.hpp"
#include "thrown.hpp"

#include <string>
#include <thread>

using namespace cuevent;
using namespace test;

namespace {

struct LogFixture : StreamFixture {
  LogFixture() {
    if (driver.version() < 12090) SKIP("the log needs a driver for CUDA 12.9");
  }
  DriverEvent event{context};
};

} // namespace

TEST_CASE_METHOD(LogFixture, "exceptions and explanations say why the driver refused the call") {
  const Context second = Context::create(0, driver);
  const Stream there(second);
  const char* const foreign =
      "the driver says: CU_EVENT_RECORD_EXTERNAL flag is not set and event did not come "
      "from expected device context; the event belongs to";
  CHECK_THAT(thrown([&] { event.record(there); }), ContainsSubstring(foreign));
  CHECK_THAT(explain_record(event.try_record(there), event, there), ContainsSubstring(foreign));
  CHECK_THAT(thrown([&] { event.record(stream, RecordFlags::external); }),
             ContainsSubstring("the driver says: CU_EVENT_RECORD_EXTERNAL flag is set but stream is not "
                               "capturing; the stream is not being captured"));
  CHECK_THAT(
      thrown([&] { event.record(stream, static_cast<RecordFlags>(0x40)); }),
      ContainsSubstring("the driver says: Invalid event recording flags; RecordFlags has unknown bits"));
}

TEST_CASE_METHOD(LogFixture, "calls that a capture forbids say so in the driver's words") {
  {
    StreamCapture capture(context, stream, CaptureMode::global);
    CHECK_THAT(
        thrown([&] { static_cast<void>(event.query()); }),
        ContainsSubstring("the driver says: API call conflicts with a stream capture sequence initiated "
                          "from the calling thread"));
    CHECK_THAT(thrown([&] { static_cast<void>(capture.end()); }),
               ContainsSubstring("the driver says: Capture was invalidated by a prior API call"));
  }
  {
    StreamCapture capture(context, stream, CaptureMode::relaxed);
    event.record(stream);
    static_cast<void>(capture.end());
  }
  const char* const over =
      "the driver says: Event is not valid. This can be related to a graph capture that is no "
      "longer running; the event was last recorded inside a stream capture";
  CHECK_THAT(thrown([&] { event.synchronize(); }), ContainsSubstring(over));
  CHECK_THAT(thrown([&] { event.wait(stream); }), ContainsSubstring(over));
}

TEST_CASE_METHOD(LogFixture, "a program reads the lines of its thread, until the log is off") {
  const auto refuse = [&] { return event.try_record(stream, RecordFlags::external); };
  const std::string lines = "CU_EVENT_RECORD_EXTERNAL flag is set but stream is not capturing\n"
                            "Returning 401 (CUDA_ERROR_ILLEGAL_STATE) from cuEventRecordWithFlags";
  CHECK(driver_log(refuse(), "cuEventRecordWithFlags") == lines);
  std::string elsewhere;
  std::thread([&] { elsewhere = driver_log(CUDA_ERROR_ILLEGAL_STATE, "cuEventRecordWithFlags"); }).join();
  CHECK(elsewhere.empty());
  CHECK(set_driver_log(DriverLog::off) == DriverLog::on);
  static_cast<void>(explain(CUDA_ERROR_ILLEGAL_STATE, "cuEventRecordWithFlags")); // takes the old lines
  CHECK(driver_log(refuse(), "cuEventRecordWithFlags").empty());
  CHECK(set_driver_log(DriverLog::on) == DriverLog::off);
  CHECK(driver_log(refuse(), "cuEventRecordWithFlags") == lines);
}
