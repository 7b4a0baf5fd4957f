// SPDX-License-Identifier: MIT
#include "core/driver_log.hpp"

#include <cuevent/explain.hpp>

#include "allocations.hpp"
#include "on_threads.hpp"
#include "recording_fixture.hpp"
#include "thrown.hpp"

#include <atomic>
#include <initializer_list>
#include <string>
#include <tuple>

using namespace cuevent;
using namespace test;

namespace {

constexpr CUresult refused = CUDA_ERROR_INVALID_HANDLE;
constexpr const char* of_record = "Returning 400 (CUDA_ERROR_INVALID_HANDLE) from cuEventRecord";
constexpr const char* reason = "Event handle is NULL";

struct LogFixture : RecordingFixture {
  LogFixture() { std::ignore = DriverWords(refused, "cuEventRecord", Words::take); }
  ~LogFixture() {
    set_driver_log(DriverLog::on);
    forget();
  }

  static void logs(std::initializer_list<const char*> lines) {
    for (const char* const line : lines)
      REQUIRE(RecordingDriver::log(line));
  }
  /// The next refused call replaces the lines.
  static void forget() { RecordingDriver::log("Returning 999 (CUDA_ERROR_UNKNOWN) from cuTest"); }
};

} // namespace

TEST_CASE_METHOD(LogFixture, "an exception says why the driver refused the call, before the advice") {
  logs({reason, of_record});
  CHECK(thrown([&] { driver.fail(refused, "cuEventRecord", "do this"); }) ==
        "cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): a handle is null, belongs to another context, or is "
        "wrong for this call; the driver says: Event handle is NULL; do this");
  const std::string again = thrown([&] { driver.fail(refused, "cuEventRecord", "do this"); });
  CHECK_THAT(again, !ContainsSubstring("the driver says")); // the lines belonged to the first failure
}

TEST_CASE_METHOD(LogFixture, "an explanation says it too, and with the usual advice") {
  logs({reason, "Returning 600 (CUDA_ERROR_NOT_READY) from cuEventElapsedTime_v2"});
  CHECK_THAT(explain(CUDA_ERROR_NOT_READY, "cuEventElapsedTime"),
             Catch::Matchers::EndsWith("; the driver says: Event handle is NULL; query again later, or "
                                       "synchronize first"));
  logs({reason, of_record});
  DriverEvent event(context);
  CHECK_THAT(explain_record(refused, event, stream),
             ContainsSubstring("the driver says: Event handle is NULL"));
}

TEST_CASE_METHOD(LogFixture, "a program can read the lines, until an exception takes them") {
  logs({"first", "second", of_record});
  const std::string lines = std::string("first\nsecond\n") + of_record;
  CHECK(driver_log(refused, "cuEventRecord") == lines);
  CHECK(driver_log(refused, "cuEventRecord") == lines);
  CHECK_THAT(explain(refused, "cuEventRecord"), ContainsSubstring("the driver says: first; second"));
  CHECK(driver_log(refused, "cuEventRecord").empty());
}

TEST_CASE_METHOD(LogFixture,
                 "lines about another call, result or time are not taken for those of a failure") {
  logs({reason, of_record});
  CHECK(driver_log(refused, "cuEventQuery").empty());
  CHECK(driver_log(CUDA_ERROR_INVALID_VALUE, "cuEventRecord").empty());
  CHECK(driver_log(refused, nullptr).empty());
  CHECK(driver_log(refused, "cuEventRec").empty());
  CHECK(driver_log(refused, "").empty());
  CHECK_THAT(explain(refused, "cuEventQuery"), !ContainsSubstring("the driver says"));
  logs({"Returning 400 (CUDA_ERROR_INVALID_HANDLE) from cuEventRecordWithFlags"});
  CHECK(driver_log(refused, "cuEventRecord").empty()); // a later call was refused
  logs({reason});
  CHECK(driver_log(refused, "cuEventRecordWithFlags").empty()); // a call is being refused
  forget();
}

TEST_CASE_METHOD(LogFixture, "a failure without a driver call gets no reason") {
  logs({reason, of_record});
  DriverEvent empty;
  CHECK_THAT(thrown([&] { empty.record(stream); }), !ContainsSubstring("the driver says"));
}

TEST_CASE_METHOD(LogFixture, "a line that names a version of the function is about the function") {
  logs({reason, "Returning 400 (CUDA_ERROR_INVALID_HANDLE) from cuEventDestroy_v2"});
  CHECK_FALSE(driver_log(refused, "cuEventDestroy").empty());
}

TEST_CASE_METHOD(LogFixture, "two callbacks for one driver give each line once") {
  const std::string lines = std::string(reason) + "\n" + of_record;
  for (int times = 0; times < 2; ++times) { // line by line, as often as calls are refused
    for (const char* const line : {reason, of_record})
      for (int callback : {0, 1})
        RecordingDriver::log(line, 0, callback);
    CHECK(driver_log(refused, "cuEventRecord") == lines);
  }
  for (int callback : {0, 1, 0, 1}) { // callback by callback
    RecordingDriver::log(reason, 0, callback);
    RecordingDriver::log(of_record, 0, callback);
    CHECK(driver_log(refused, "cuEventRecord") == lines);
  }
  RecordingDriver::log("a reason without an end", 0, 0);
  RecordingDriver::log("Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuEventQuery", 0, 1);
  CHECK_FALSE(driver_log(CUDA_ERROR_INVALID_VALUE, "cuEventQuery").empty());
}

TEST_CASE_METHOD(LogFixture, "warnings, odd lines and lines of any length are harmless") {
  REQUIRE(RecordingDriver::log("a warning", 1));
  logs({"", "\n\n", "line\twith\x01 controls\n", "Returning", "Returning from", of_record});
  CHECK(driver_log(refused, "cuEventRecord") ==
        std::string("line with  controls\nReturning\nReturning from\n") + of_record);
  REQUIRE(RecordingDriver::log(std::string(100'000, 'x')));
  REQUIRE(RecordingDriver::log(std::string(of_record) + "\n"));
  const std::string cut = driver_log(refused, "cuEventRecord");
  CHECK(cut.size() <= 480);
  CHECK_THAT(cut, Catch::Matchers::EndsWith(of_record));
  for (int i = 0; i < 1000; ++i)
    logs({reason});
  logs({of_record});
  CHECK_THAT(driver_log(refused, "cuEventRecord"), Catch::Matchers::EndsWith(of_record));
  REQUIRE(RecordingDriver::log("Returning 99999999999999999999 (X) from cuEventRecord"));
  CHECK(driver_log(refused, "cuEventRecord").empty());
}

TEST_CASE_METHOD(LogFixture, "each thread has its own lines, also if there are more threads than room") {
  logs({reason, of_record});
  const auto with_room = GENERATE(true, false);
  const std::size_t threads = with_room ? 32 : 200;
  std::atomic<std::size_t> wrong{0}, found{0};
  on_threads(threads, [&](std::size_t i) {
    const std::string own = "reason of " + std::to_string(i);
    RecordingDriver::log(own);
    RecordingDriver::log(of_record);
    const std::string seen = driver_log(refused, "cuEventRecord");
    if (seen == own + "\n" + of_record)
      ++found;
    else if (!seen.empty() && seen != of_record) // the first line was lost to a newer thread
      ++wrong;
  });
  CHECK(wrong == 0);
  if (with_room) CHECK(found == threads); // else each thread may lose its lines to another one
}

TEST_CASE_METHOD(LogFixture, "what a function asks to find a cause does not replace the lines") {
  logs({reason, of_record});
  {
    const KeepLog keep;
    RecordingDriver::log("another reason");
    RecordingDriver::log(of_record);
  }
  CHECK_THAT(driver_log(refused, "cuEventRecord"), Catch::Matchers::StartsWith(reason));
}

TEST_CASE_METHOD(LogFixture, "the log can be switched off and on") {
  CHECK(set_driver_log(DriverLog::off) == DriverLog::on);
  CHECK_FALSE(RecordingDriver::log(of_record));
  CHECK(set_driver_log(DriverLog::off) == DriverLog::off);
  CHECK(set_driver_log(DriverLog::on) == DriverLog::off);
  CHECK(RecordingDriver::log(of_record));
  recording.calls();
  CHECK(set_driver_log(DriverLog::on) == DriverLog::on);
  CHECK(recording.calls().empty()); // registered once
}

TEST_CASE_METHOD(LogFixture, "a line costs no allocation") {
  std::string first = reason, second = of_record;
  const std::size_t before = allocations_of_this_thread();
  RecordingDriver::log(std::move(first));
  RecordingDriver::log(std::move(second));
  const std::size_t after = allocations_of_this_thread();
  CHECK(after == before);
  CHECK_FALSE(driver_log(refused, "cuEventRecord").empty());
}
