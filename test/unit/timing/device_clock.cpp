// SPDX-License-Identifier: MIT
#include "timing/device_clock.hpp"

#include "recording_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <map>
#include <string_view>

using namespace cuevent;
using Catch::Matchers::WithinAbs;

namespace {

constexpr long long ms = 1'000'000;

/// A driver whose clocks the test moves. Events complete at once, unless they are held back.
struct Clocks {
  static constexpr long long call = 100, look = 10; // ns that a record takes, and a look at the host's clock

  long long host = 1'000'000'000; // ns
  long long ahead = 5'000;        // the device's clock is as much ahead of the host's
  long long tick = 1;             // the device's clock counts in steps of so many ns
  long long query_takes = 50;     // ns
  unsigned records = 0;
  long long slow = 0; // ns by which three of eight records are late
  int held_back = 0;  // so many queries say that the event is not ready
  bool elapsed_ready = true;
  std::map<CUevent, long long> recorded;

  long long device() const { return (host + ahead) / tick * tick; }
};
Clocks clocks;

CUresult record(CUevent event, CUstream) {
  clocks.host += Clocks::call / 2 + (clocks.records++ % 8 < 3 ? clocks.slow : 0);
  clocks.recorded[event] = clocks.device();
  clocks.host += Clocks::call / 2;
  return CUDA_SUCCESS;
}
CUresult query(CUevent) {
  clocks.host += clocks.query_takes;
  return clocks.held_back-- > 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult elapsed(float* milliseconds, CUevent from, CUevent to) {
  *milliseconds = static_cast<float>(static_cast<double>(clocks.recorded[to] - clocks.recorded[from]) / 1e6);
  return clocks.elapsed_ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
long long look() { return clocks.host += Clocks::look; }
void pause(long long) {}

/// What replaces the stub, null if nothing does.
void* replacement(std::string_view name) {
  if (name == "cuEventRecord") return reinterpret_cast<void*>(record);
  if (name == "cuEventQuery") return reinterpret_cast<void*>(query);
  if (name == "cuEventElapsedTime") return reinterpret_cast<void*>(elapsed);
  if (name == "cueventClockNow") return reinterpret_cast<void*>(look);
  if (name == "cueventPause") return reinterpret_cast<void*>(pause);
  return nullptr;
}
CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  const CUresult result = test::RecordingDriver::get_proc_address(name, function, version, flags, status);
  if (void* const other = replacement(name)) {
    *function = other;
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  return result;
}

struct ClockFixture : test::RecordingFixture {
  Driver clock_driver = (clocks = Clocks(), Driver(get_proc_address));
  Context clock_context = Context::borrow(test::context_handle(1), clock_driver);
  DeviceClock clock;
  long long zero = 0; // the device's clock when the first anchor was recorded

  void create() {
    clocks.recorded.clear();
    const long long before = clocks.device();
    REQUIRE(clock.create(clock_context));
    zero = clocks.recorded.begin()->second;
    for (const auto& [event, time] : clocks.recorded)
      zero = std::min(zero, time);
    CHECK(zero > before);
  }
  /// An event that was recorded on the device's clock at that time.
  DriverEvent event_at(long long time) {
    DriverEvent event(clock_context, EventFlags::timing);
    clocks.recorded[event.native_handle()] = time;
    return event;
  }
  double time_of(const DriverEvent& event) {
    double time = 0;
    REQUIRE(clock.time_of(event, time));
    return time;
  }
  /// Each anchor before the event, and the event itself, may add a rounding of 4 ns.
  void check_time(long long after) {
    const auto exact = static_cast<double>(after);
    CHECK_THAT(time_of(event_at(zero + after)), WithinAbs(exact, 4 + exact / (100 * ms) * 4));
  }
  /// Lets an anchor be recorded every 100 ms.
  void keep_up_for(long long seconds) {
    for (int i = 0; i < 10 * seconds; ++i) {
      clocks.host += 100'000'000;
      REQUIRE(clock.keep_up());
    }
    REQUIRE(clock.keep_up());
  }
};

} // namespace

TEST_CASE_METHOD(ClockFixture, "a clock is made in its context, and names the call that fails") {
  recording.calls();
  create();
  CHECK(recording.context_stack().empty());
  const std::pair<const char*, const char*> failing[] = {
      {"cuCtxPushCurrent", "cuCtxPushCurrent"},
      {"cuStreamCreate", "cuStreamCreate"},
      {"cuEventCreate", "cuEventCreate"},
  };
  for (const auto& [call, named] : failing) {
    DeviceClock other;
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    const Status status = other.create(clock_context);
    CHECK(status.result == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(std::string_view(status.call) == named);
  }
  recording.calls();
}

TEST_CASE_METHOD(ClockFixture, "times are since the first anchor, whichever anchor is the nearest") {
  create();
  CHECK_THAT(time_of(event_at(zero)), WithinAbs(0, 0.001));
  CHECK_THAT(time_of(event_at(zero - 12'345)), WithinAbs(-12'345, 0.001));
  keep_up_for(6);
  for (long long after = 0; after < 6'000 * ms; after += 37 * ms)
    check_time(after);
  CHECK(clock.reading().rounding < DeviceTime(7)); // that of 100 ms
  CHECK(clock.reading().rounding > DeviceTime(1));
}

TEST_CASE_METHOD(ClockFixture, "the anchors of the last 6.3 seconds are remembered") {
  create();
  keep_up_for(20);
  const long long now = clocks.device() - zero;
  check_time(now - 6'200 * ms);
  CHECK(clock.reading().rounding < DeviceTime(7));
  time_of(event_at(zero + now - 8'200 * ms)); // 2 s before the oldest anchor
  CHECK(clock.reading().rounding > DeviceTime(90));
  CHECK(clock.reading().rounding < DeviceTime(130));
}

TEST_CASE_METHOD(ClockFixture, "an anchor is recorded every 100 ms, and read when it has completed") {
  create();
  const auto anchors = clocks.recorded;
  const auto moved = [&] { return clocks.recorded != anchors; };
  clocks.host += 90 * ms;
  REQUIRE(clock.keep_up());
  CHECK_FALSE(moved());
  clocks.host += 10 * ms;
  REQUIRE(clock.keep_up());
  CHECK(moved());

  const auto with_one = clocks.recorded;
  clocks.host += 100 * ms;
  clocks.elapsed_ready = false; // the anchor is on its way
  REQUIRE(clock.keep_up());
  CHECK(clocks.recorded == with_one);
  clocks.elapsed_ready = true;
  REQUIRE(clock.keep_up()); // reads it, and records the next
  CHECK(clocks.recorded != with_one);
}

TEST_CASE_METHOD(ClockFixture, "an anchor is due 100 ms after the last one was recorded") {
  create();
  REQUIRE(clock.calibrate());
  long long due_from = 0;
  for (long long now = clocks.host + 99 * ms; due_from == 0; ++now)
    if (clock.due(now)) due_from = now;
  CHECK_FALSE(clock.due(due_from - 1));
  clocks.host = due_from - Clocks::look;
  const auto before = clocks.recorded;
  REQUIRE(clock.keep_up());
  CHECK(clocks.recorded != before);
  const long long recorded = due_from + Clocks::look;
  CHECK_FALSE(clock.due(recorded + 100 * ms - 1));
  CHECK(clock.due(recorded + 100 * ms));
}

TEST_CASE_METHOD(ClockFixture, "a failure to read an anchor is reported, and one that is pending is not") {
  create();
  clocks.host += 100 * ms;
  REQUIRE(clock.keep_up());
  clocks.elapsed_ready = false;
  CHECK(clock.keep_up());
  double time = 0;
  const Status status = clock.time_of(event_at(zero), time);
  CHECK(status.result == CUDA_ERROR_NOT_READY);
  CHECK(std::string_view(status.call) == "cuEventElapsedTime");
}

TEST_CASE_METHOD(ClockFixture, "a calibration bounds the distance between the clocks from both sides") {
  create();
  const StageClock reading = clock.reading();
  // From the look before a record to the look after its query, less the steps that are the same.
  const double width = Clocks::call + 50 + Clocks::look;
  CHECK_THAT(reading.uncertainty.count(), WithinAbs(width / 2, 0.5));
  const auto host_at_zero = static_cast<double>(zero - clocks.ahead);
  CHECK_THAT(static_cast<double>(reading.epoch.time_since_epoch().count()),
             WithinAbs(host_at_zero, width / 2));
  CHECK(reading.calibrated_at > DeviceTime(0));
  CHECK(reading.calibrated_at < DeviceTime(static_cast<double>(clocks.device() - zero)));
  CHECK_THAT(reading.empty_stage.count(), WithinAbs(Clocks::call, 0.001));
}

TEST_CASE_METHOD(ClockFixture, "a calibration finds the resolution of the device's clock") {
  clocks.tick = 32;
  create();
  CHECK_THAT(clock.reading().resolution.count(), WithinAbs(32, 0.001));
}

TEST_CASE_METHOD(ClockFixture, "the steps between adjacent records count for the resolution too") {
  clocks.tick = 32;
  clocks.query_takes = 72; // all other steps are multiples of 192
  create();
  CHECK_THAT(clock.reading().resolution.count(), WithinAbs(32, 0.001));
}

TEST_CASE_METHOD(ClockFixture, "a few slow records do not change the time of an empty stage") {
  create();
  clocks.slow = 7'000;
  for (unsigned first = 0; first < 8; ++first) { // whichever of the records are slow
    clocks.records = first;
    REQUIRE(clock.calibrate());
    CHECK_THAT(clock.reading().empty_stage.count(), WithinAbs(Clocks::call, 0.001));
  }
}

TEST_CASE_METHOD(ClockFixture, "a later calibration follows clocks that have moved apart, and looks anew") {
  create();
  const HostTime epoch = clock.reading().epoch;
  clocks.host += 5'000 * ms;
  clocks.ahead -= 1'000'000; // the device's clock has lost 1 ms
  REQUIRE(clock.calibrate());
  const auto moved = static_cast<double>((clock.reading().epoch - epoch).count());
  CHECK_THAT(moved, WithinAbs(1'000'000, 400));
  CHECK(clock.reading().calibrated_at > DeviceTime(4.9e9));
}

TEST_CASE_METHOD(ClockFixture, "a calibration waits for an anchor that is on its way") {
  create();
  clocks.host += 100 * ms;
  REQUIRE(clock.keep_up());
  clocks.held_back = 3;
  REQUIRE(clock.calibrate());
  CHECK(clocks.held_back < 0);
  CHECK_THAT(time_of(event_at(zero + 7)), WithinAbs(7, 4.0));
}
