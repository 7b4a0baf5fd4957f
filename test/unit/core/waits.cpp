// SPDX-License-Identifier: MIT
// The waits for events, fences and stages, on a clock that the test moves.
#include <cuevent/driver_event.hpp>
#include <cuevent/stage_timer.hpp>
#include <cuevent/timeline_fence.hpp>

#include "recording_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

using namespace cuevent;
using namespace std::chrono_literals;

namespace {

constexpr long long us = 1'000, ms = 1'000'000;

struct Clock {
  long long now = 0;
  long long look = 0;            // ns that a look at the clock takes
  long long late = 0;            // ns that each pause takes longer
  std::vector<long long> asked;  // when the driver was asked
  std::vector<long long> pauses; // how long
  CUresult answer = CUDA_SUCCESS;
  CUresult at_ready = CUDA_SUCCESS;                           // what a query returns then
  long long ready_at = std::numeric_limits<long long>::max(); // when all work has completed
  std::uint64_t* counter = nullptr;                           // of the fence that then reaches `ticket`
  std::uint64_t ticket = 0;
  CUevent recorded = nullptr; // last
  CUevent early = nullptr;    // has completed before all others
  bool is_pending(CUevent event) const { return now < ready_at && event != early; }
};
Clock clock;

CUresult record(CUevent event, CUstream) { return clock.recorded = event, CUDA_SUCCESS; }
CUresult query(CUevent event) {
  clock.asked.push_back(clock.now);
  return clock.is_pending(event) ? CUDA_ERROR_NOT_READY : clock.at_ready;
}
CUresult elapsed(float* milliseconds, CUevent, CUevent end) {
  *milliseconds = 1;
  return clock.is_pending(end) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult is_capturing(CUstream, CUstreamCaptureStatus* status) {
  clock.asked.push_back(clock.now);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return clock.answer;
}
long long pass(long long nanoseconds) {
  clock.now += nanoseconds;
  if (clock.counter != nullptr && clock.now >= clock.ready_at)
    __atomic_store_n(clock.counter, clock.ticket, __ATOMIC_RELEASE);
  return clock.now;
}
long long look() { return pass(clock.look); }
void pause(long long nanoseconds) {
  clock.pauses.push_back(nanoseconds);
  pass(nanoseconds + clock.late);
}

CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  const CUresult result = test::RecordingDriver::get_proc_address(name, function, version, flags, status);
  const std::string_view asked = name;
  void* const other = asked == "cuEventQuery"          ? reinterpret_cast<void*>(query)
                      : asked == "cuEventElapsedTime"  ? reinterpret_cast<void*>(elapsed)
                      : asked == "cuEventRecord"       ? reinterpret_cast<void*>(record)
                      : asked == "cuStreamIsCapturing" ? reinterpret_cast<void*>(is_capturing)
                      : asked == "cueventClockNow"     ? reinterpret_cast<void*>(look)
                      : asked == "cueventPause"        ? reinterpret_cast<void*>(pause)
                                                       : nullptr;
  if (other == nullptr) return result;
  *function = other;
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

struct WaitFixture : test::RecordingFixture {
  Context waiting = Context::borrow(test::context_handle(0x7000), Driver(get_proc_address));
  long long start = 0;

  WaitFixture() { recording.stream_context(waiting.native_handle()); }

  /// From here on the test looks at the clock.
  void begin(long long a_look_takes) {
    clock = Clock();
    clock.now = start = 123 * ms;
    clock.look = a_look_takes;
  }
  long long waited() const { return clock.now - start; }
};

} // namespace

TEST_CASE_METHOD(WaitFixture, "a wait for an event queries, backs off, and ends with a query at its end") {
  const DriverEvent event(waiting);
  begin(10 * us);
  CHECK(event.try_synchronize_for(5ms) == CUDA_ERROR_NOT_READY);
  // The last look is at the end, and the pause before it lasted until then.
  CHECK(waited() == 5 * ms + 10 * us + 10 * us);
  CHECK(clock.asked.front() == start + 10 * us);
  CHECK(clock.asked.back() == start + 5 * ms + 10 * us);
  // Spins and yields look every 10 us. The first pause is a tenth of the time waited, 1 ms.
  CHECK(clock.asked[99] == start + 1000 * us);
  CHECK(clock.asked[100] == start + 1110 * us);
  REQUIRE(clock.pauses.size() > 2);
  CHECK(clock.pauses.front() == 100 * us);
  CHECK(clock.pauses[1] == 111 * us);
}

TEST_CASE_METHOD(WaitFixture, "a wait for an event without time queries once") {
  const DriverEvent event(waiting);
  begin(1);
  CHECK(event.try_synchronize_for(0ns) == CUDA_ERROR_NOT_READY);
  CHECK(clock.asked.size() == 1);
  CHECK(clock.pauses.empty());
  begin(1);
  CHECK(event.try_synchronize_for(1ns) == CUDA_ERROR_NOT_READY);
  CHECK(clock.asked.size() == 1);
}

TEST_CASE_METHOD(WaitFixture, "a wait for a ticket asks the driver every millisecond and at its end") {
  TimelineFence fence(waiting, stream);
  const std::uint64_t ticket = fence.signal();
  begin(0);
  CHECK(fence.try_wait_for(ticket, 5ms) == CUDA_ERROR_NOT_READY);
  CHECK(waited() == 5 * ms);
  REQUIRE(clock.asked.size() >= 4);
  CHECK(clock.asked.front() == start + ms);
  CHECK(clock.asked.back() == start + 5 * ms);
  for (std::size_t i = 2; i < clock.asked.size(); ++i)
    CHECK(clock.asked[i - 1] - clock.asked[i - 2] >= ms);
  // The clock stands still in spins and yields, so the wait pauses for 1 us each time.
  CHECK(clock.pauses[0] == us);
  CHECK(clock.pauses[999] == us);
  CHECK(clock.pauses[1000] == 100 * us);
  recording.calls();
}

TEST_CASE_METHOD(WaitFixture, "a wait for a ticket does not pause while its clock moves") {
  TimelineFence fence(waiting, stream);
  const std::uint64_t ticket = fence.signal();
  begin(us);
  CHECK(fence.try_wait_for(ticket, 900us) == CUDA_ERROR_NOT_READY);
  CHECK(clock.pauses.empty());
  CHECK(clock.asked.size() == 1);
  recording.calls();
}

TEST_CASE_METHOD(WaitFixture, "a wait for a ticket notices a fault within a millisecond") {
  TimelineFence fence(waiting, stream);
  const std::uint64_t ticket = fence.signal();
  begin(0);
  clock.answer = CUDA_ERROR_ILLEGAL_ADDRESS;
  CHECK(fence.try_wait_for(ticket, 5ms) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(waited() == ms);
  begin(0);
  clock.answer = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  CHECK(fence.try_wait_for(ticket, 2ms) == CUDA_ERROR_NOT_READY);
  CHECK(waited() == 2 * ms);
  recording.calls();
}

TEST_CASE_METHOD(WaitFixture, "repeating waits for one event sleep until shortly before its end") {
  const DriverEvent event(waiting);
  begin(1);
  // The margin may be what an earlier test left: 50 to 150 us. Late wake-ups raise it to 130 us or more.
  clock.late = 130 * us;
  for (int i = 0; i < 40; ++i) {
    clock.ready_at = clock.now + 3 * ms;
    CHECK(event.try_synchronize_for(1s) == CUDA_SUCCESS);
  }
  clock.late = 0;
  for (int i = 0; i < 10; ++i) {
    clock.pauses.clear();
    clock.ready_at = clock.now + 3 * ms;
    CHECK(event.try_synchronize_for(1s) == CUDA_SUCCESS);
    if (i >= 4) CHECK(clock.now - clock.ready_at < us);
  }
  REQUIRE(clock.pauses.size() == 3);
  CHECK(clock.pauses[0] == ms);
  CHECK(clock.pauses[1] == ms);
  CHECK(clock.pauses[2] > 800 * us);
  CHECK(clock.pauses[2] < 900 * us);
}

TEST_CASE_METHOD(WaitFixture, "a repeating wait for an event that faults ends with the fault") {
  const DriverEvent event(waiting);
  begin(1);
  for (int i = 0; i < 10; ++i) {
    clock.ready_at = clock.now + 3 * ms;
    CHECK(event.try_synchronize_for(1s) == CUDA_SUCCESS);
  }
  clock.ready_at = clock.now + ms / 2;
  clock.at_ready = CUDA_ERROR_ILLEGAL_ADDRESS;
  CHECK(event.try_synchronize_for(1s) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(clock.now - clock.ready_at <= ms);
}

TEST_CASE_METHOD(WaitFixture, "repeating waits for a fence sleep until shortly before its end") {
  TimelineFence fence(waiting, stream);
  begin(1);
  for (int i = 0; i < 10; ++i) {
    clock.pauses.clear();
    clock.asked.clear();
    clock.ready_at = clock.now + 3 * ms;
    clock.ticket = fence.signal();
    clock.counter = reinterpret_cast<std::uint64_t*>(recording.memory_operation().address);
    CHECK(fence.try_wait_for(clock.ticket, 1s) == CUDA_SUCCESS);
    if (i >= 4) CHECK(clock.now - clock.ready_at < us);
  }
  CHECK(clock.pauses.size() == 3);
  CHECK(clock.asked.size() >= 3); // a fault would be noticed after each pause
  recording.calls();
}

TEST_CASE_METHOD(WaitFixture,
                 "collecting results takes as long as the device, and sleeps, whichever result is complete") {
  const bool newest_is_complete = GENERATE(false, true);
  begin(us);
  clock.ready_at = 0;
  StageTimer timer(waiting, {.events_per_stream = 16, .side_streams = 0});
  const StageId stage = timer.stage("stage");
  timer.open(stream, stage);
  timer.close(stream);
  if (newest_is_complete) clock.early = clock.recorded;
  clock.ready_at = clock.now + 200 * ms;
  clock.asked.clear();
  CHECK(timer.collect() == 1);
  CHECK(clock.now >= clock.ready_at);
  CHECK(clock.now < clock.ready_at + 20 * ms);
  CHECK(clock.asked.size() < 5'000); // a loop without sleep asks more than 20,000 times
  CHECK(std::accumulate(clock.pauses.begin(), clock.pauses.end(), 0LL) > 150 * ms);
  timer = StageTimer();
  recording.calls();
}
