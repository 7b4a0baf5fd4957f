// SPDX-License-Identifier: MIT
#include <cuevent/timeline_semaphore.hpp>

#include "overloads.hpp"
#include "recording_fixture.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <type_traits>
#include <unistd.h>
#include <utility>

using namespace cuevent;
using namespace test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

static_assert(!std::is_copy_constructible_v<TimelineSemaphore> &&
              !std::is_copy_assignable_v<TimelineSemaphore>);
static_assert(std::is_nothrow_move_constructible_v<TimelineSemaphore> &&
              std::is_nothrow_move_assignable_v<TimelineSemaphore>);
static_assert(std::is_nothrow_default_constructible_v<TimelineSemaphore> &&
              std::is_nothrow_swappable_v<TimelineSemaphore> &&
              !std::is_convertible_v<TimelineSemaphore, bool>);
static_assert(sizeof(TimelineSemaphore) <= 48);

namespace {

const Names made{"cuCtxGetId",
                 "cuCtxGetCurrent",
                 "cuCtxGetId",
                 "cuCtxPushCurrent",
                 "cuThreadExchangeStreamCaptureMode",
                 "cuCtxGetDevice",
                 "cuDeviceGetAttribute",
                 "cuMemHostRegister",
                 "cuMemHostGetDevicePointer",
                 "cuThreadExchangeStreamCaptureMode",
                 "cuCtxPopCurrent"};

/// The stubs write nothing, so the test writes what the device would.
void complete(const MemoryOperation& write) {
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(write.address), write.value, __ATOMIC_RELEASE);
}

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a semaphore registers its page for all contexts, in relaxed mode",
                 "[semaphore]") {
  recording.calls();
  TimelineSemaphore semaphore(context, 4);
  CHECK(recording.calls() == made);
  CHECK(recording.host_memory_flags() == (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  semaphore.close();
  CHECK(recording.calls() ==
        Names{"cuCtxGetCurrent", "cuCtxGetId", "cuCtxPushCurrent", "cuMemHostUnregister", "cuCtxPopCurrent"});
}

TEST_CASE_METHOD(RecordingFixture, "a semaphore that cannot be made says why", "[semaphore]") {
  recording.memory_operations_64_bit(false);
  CHECK_THROWS_WITH(TimelineSemaphore(context), ContainsSubstring("use a TimelineFence"));
  recording.memory_operations_64_bit(true);
  CHECK_THROWS_WITH(TimelineSemaphore(context, TimelineSemaphore::released_value),
                    ContainsSubstring("2^63 - 1"));
  CHECK_THROWS_WITH(TimelineSemaphore::import(context, -1), ContainsSubstring("export_handle()"));
  check_overloads(
      recording, [&] { TimelineSemaphore(context).close(); },
      [&] {
        TimelineSemaphore semaphore;
        const CUresult result = TimelineSemaphore::try_create(semaphore, context);
        return result == CUDA_SUCCESS ? semaphore.try_close() : result;
      });
}

TEST_CASE_METHOD(RecordingFixture, "a descriptor whose import fails can be imported again", "[semaphore]") {
  TimelineSemaphore semaphore(context), joined;
  const int handle = semaphore.export_handle();
  recording.fail_next("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(TimelineSemaphore::import(context, handle), OutOfMemory);
  CHECK(semaphore.status() == TimelineStatus::active);
  recording.fail_next("cuMemHostGetDevicePointer", CUDA_ERROR_INVALID_VALUE);
  CHECK(TimelineSemaphore::try_import(joined, context, handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(semaphore.status() == TimelineStatus::active);
  REQUIRE(TimelineSemaphore::try_import(joined, context, handle) == CUDA_SUCCESS);
  joined.signal(1);
  CHECK(semaphore.value() == 1);
}

TEST_CASE_METHOD(RecordingFixture, "signals and waits are one memory operation each", "[semaphore]") {
  TimelineSemaphore semaphore(context);
  recording.calls();
  semaphore.signal(stream, 5);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamGetId", "cuStreamWriteValue64"});
  const MemoryOperation write = recording.memory_operation();
  CHECK(write.stream == stream);
  CHECK(write.value == 5);
  CHECK(write.flags == CU_STREAM_WRITE_VALUE_DEFAULT);
  semaphore.wait(stream, 3);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamWaitValue64"});
  CHECK(recording.memory_operation().address == write.address);
  CHECK(recording.memory_operation().value == 3);
  CHECK(recording.memory_operation().flags == CU_STREAM_WAIT_VALUE_GEQ);
  complete(write);
  semaphore.wait(stream, 5);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing"}); // reached
  CHECK(semaphore.reached(5));
  CHECK(semaphore.submitted() == 5);
  CHECK(semaphore.wait_for(5, 0ns));
  semaphore.signal(6);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "a signal that the driver refuses leaves no trace", "[semaphore]") {
  TimelineSemaphore semaphore(context);
  recording.fail_next("cuStreamWriteValue64", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(semaphore.signal(stream, 5), OutOfMemory);
  CHECK(semaphore.submitted() == 0);
  semaphore.signal(9); // no pending signal of 5 would lower it
  CHECK(semaphore.value() == 9);
}

TEST_CASE_METHOD(RecordingFixture, "signals of different streams may be submitted in any order",
                 "[semaphore]") {
  TimelineSemaphore semaphore(context);
  CUstream const other = stream_handle(2);
  semaphore.signal(other, 2);
  semaphore.signal(stream, 1); // `other` may wait for it
  CHECK(semaphore.try_signal(stream, 1) == CUDA_ERROR_INVALID_VALUE);
  semaphore.signal(stream, 3);
  CHECK(semaphore.try_signal(stream, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THROWS_WITH(semaphore.signal(4), ContainsSubstring("signal rising values"));
  complete(recording.memory_operation());
  semaphore.signal(4);
}

TEST_CASE_METHOD(RecordingFixture, "throwing and non-throwing calls of a semaphore agree", "[semaphore]") {
  TimelineSemaphore semaphore(context);
  std::uint64_t next = 1;
  const auto submit = [&] { return next++; };
  CHECK(check_overloads(
            recording, [&] { semaphore.signal(stream, submit()); },
            [&] { return semaphore.try_signal(stream, submit()); }) == CUDA_SUCCESS);
  CHECK(check_overloads(
            recording, [&] { semaphore.wait(stream, 1); }, [&] { return semaphore.try_wait(stream, 1); }) ==
        CUDA_SUCCESS);
  CHECK(check_overloads(
            recording, [&] { semaphore.wait(context, nullptr, 1); },
            [&] { return semaphore.try_wait(context, nullptr, 1); }) == CUDA_SUCCESS);
  CHECK(check_overloads(
            recording, [&] { semaphore.wait(stream, next + 1); },
            [&] { return semaphore.try_wait(stream, next + 1); }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(check_overloads(
            recording, [&] { semaphore.wait_when_submitted(stream, 1, 0ns); },
            [&] { return semaphore.try_wait_when_submitted(stream, 1, 0ns); }) == CUDA_SUCCESS);
  semaphore.abandon();
  CHECK(check_overloads(
            recording, [&] { semaphore.wait_for(next, 0ns); },
            [&] { return semaphore.try_wait_for(next, 0ns); }) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE_METHOD(RecordingFixture, "a fault of the context ends a wait on the host", "[semaphore]") {
  TimelineSemaphore semaphore(context);
  recording.fail_always("cuStreamIsCapturing", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THROWS_AS(semaphore.wait_for(1, std::chrono::hours(1)), IllegalAddress);
  recording.fail_always("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK_FALSE(semaphore.wait_for(1, 2ms)); // another stream is being captured
  recording.fail_nothing();
}

TEST_CASE_METHOD(RecordingFixture, "the texts of refused calls say what to do", "[semaphore]") {
  TimelineSemaphore semaphore(context);
  CHECK_THROWS_WITH(semaphore.wait(stream, 1), ContainsSubstring("wait_when_submitted()"));
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK_THROWS_WITH(semaphore.signal(stream, 1), ContainsSubstring("signal after each launch"));
  CHECK_THROWS_WITH(semaphore.wait(stream, 0), ContainsSubstring("wait before each launch"));
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  TimelineSemaphore moved(std::move(semaphore));
  CHECK_THROWS_WITH(semaphore.signal(1), ContainsSubstring("make it with a Context"));
  moved.abandon();
  CHECK_THROWS_WITH(moved.signal(1), ContainsSubstring("make a new one"));
}
