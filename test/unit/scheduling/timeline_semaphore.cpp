// SPDX-License-Identifier: MIT
#include <cuevent/timeline_semaphore.hpp>

#include "overloads.hpp"
#include "recording_fixture.hpp"
#include "scheduling/semaphore_guard.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>

using namespace cuevent;
using namespace test;

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
void complete_signal(RecordingFixture& fixture) { complete(fixture.recording.memory_operation()); }

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a semaphore registers its page for all contexts, in relaxed mode") {
  recording.calls();
  TimelineSemaphore semaphore(context, 4);
  CHECK(recording.calls() == made);
  CHECK(recording.host_memory_flags() == (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  semaphore.close();
  CHECK(recording.calls() == Names{"cuCtxGetCurrent", "cuCtxGetId", "cuCtxPushCurrent",
                                   "cuThreadExchangeStreamCaptureMode", "cuMemHostUnregister",
                                   "cuThreadExchangeStreamCaptureMode", "cuCtxPopCurrent"});
}

TEST_CASE_METHOD(RecordingFixture, "a semaphore that cannot be made says why") {
  recording.memory_operations_64_bit(false);
  CHECK_THROWS_WITH(TimelineSemaphore(context), ContainsSubstring("use a TimelineFence"));
  recording.memory_operations_64_bit(true);
  CHECK_THROWS_WITH(TimelineSemaphore(context, TimelineSemaphore::released_value),
                    ContainsSubstring("2^63 - 1"));
  CHECK_THROWS_WITH(TimelineSemaphore::import(context, -1), ContainsSubstring("cannot be written to"));
  check_overloads(
      recording, [&] { TimelineSemaphore(context).close(); },
      [&] {
        TimelineSemaphore semaphore;
        const CUresult result = TimelineSemaphore::try_create(semaphore, context);
        return result == CUDA_SUCCESS ? semaphore.try_close() : result;
      });
}

TEST_CASE_METHOD(RecordingFixture, "a descriptor whose import fails can be imported again") {
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
  const int taken = semaphore.export_handle(), copy = dup(taken);
  joined = TimelineSemaphore::import(context, taken);
  CHECK_THROWS_WITH(TimelineSemaphore::import(context, copy), ContainsSubstring("once for each process"));
  close(copy);
}

TEST_CASE_METHOD(RecordingFixture, "a signal is one memory operation, and so is a wait") {
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

TEST_CASE_METHOD(RecordingFixture, "a signal that the driver refuses leaves no trace") {
  TimelineSemaphore semaphore(context);
  recording.fail_next("cuStreamWriteValue64", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(semaphore.signal(stream, 5), OutOfMemory);
  CHECK(semaphore.submitted() == 0);
  semaphore.signal(4); // its entry was free
  semaphore.signal(stream, 5);
  complete_signal(*this);
  semaphore.signal(9);
  CHECK(semaphore.value() == 9);
}

TEST_CASE_METHOD(RecordingFixture, "signals of different streams may be submitted in any order") {
  TimelineSemaphore semaphore(context);
  CUstream const other = stream_handle(2);
  semaphore.signal(other, 2);
  complete_signal(*this); // as if it had waited for 1
  CHECK(semaphore.try_signal(stream, 1) == CUDA_ERROR_INVALID_VALUE);
  semaphore.signal(other, 5);
  CHECK(semaphore.try_signal(other, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(semaphore.try_signal(stream, 5) == CUDA_ERROR_INVALID_VALUE);
  const MemoryOperation write = recording.memory_operation();
  semaphore.signal(stream, 3); // `other` may wait for it
  CHECK_THROWS_WITH(semaphore.signal(4), ContainsSubstring("signal rising values"));
  complete_signal(*this);
  semaphore.signal(4);
  CHECK(semaphore.try_signal(6) == CUDA_ERROR_INVALID_VALUE);
  complete(write);
  semaphore.signal(6);
}

TEST_CASE_METHOD(RecordingFixture,
                 "an abandoned semaphore stays released, in whatever order streams signal") {
  std::optional<TimelineSemaphore> semaphore(context);
  semaphore->signal(stream, 1);
  const MemoryOperation late = recording.memory_operation();
  semaphore->signal(stream_handle(2), 2); // waits for 1, until the semaphore is abandoned
  const MemoryOperation early = recording.memory_operation();
  semaphore->abandon();
  semaphore.reset();
  for (const MemoryOperation& each : {early, late}) {
    complete(each);
    const auto value = [&each] {
      return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(each.address), __ATOMIC_ACQUIRE);
    };
    for (int i = 0; i < 5'000 && value() != TimelineSemaphore::released_value; ++i)
      std::this_thread::sleep_for(1ms);
    CHECK(value() == TimelineSemaphore::released_value);
  }
}

TEST_CASE_METHOD(RecordingFixture, "1,992 signals of a semaphore can be pending") {
  TimelineSemaphore semaphore(context);
  semaphore.signal(stream, 2);
  const MemoryOperation first = recording.memory_operation();
  for (std::uint64_t value = 3; value < 1994; ++value)
    REQUIRE(semaphore.try_signal(stream, value) == CUDA_SUCCESS);
  CHECK_THROWS_WITH(semaphore.signal(stream, 1994), ContainsSubstring("1,992 signals"));
  CHECK_THROWS_AS(semaphore.signal(1), OutOfMemory);
  complete(first); // its entry is free now
  CHECK(semaphore.try_signal(3) == CUDA_ERROR_INVALID_VALUE);
  semaphore.signal(stream, 1994);
  CHECK(semaphore.try_signal(stream, 1995) == CUDA_ERROR_OUT_OF_MEMORY);
  complete_signal(*this); // all of them are reached
  semaphore.signal(2000);
}

TEST_CASE_METHOD(RecordingFixture, "what another process stores into the page bounds no loop") {
  TimelineSemaphore semaphore(context);
  semaphore.signal(stream, 1);
  auto* const page = reinterpret_cast<cuevent_timeline_page*>(recording.memory_operation().address -
                                                              offsetof(cuevent_timeline_page, word));
  complete_signal(*this);
  for (const std::uint32_t used : {0xffff'ffffU, 0x8000'0000U, 1993U}) {
    page->used = used;
    const std::uint64_t next = semaphore.submitted() + 1;
    CHECK(semaphore.try_signal(stream, next) == CUDA_SUCCESS);
    complete_signal(*this);
    CHECK(semaphore.try_signal(next + 1) == CUDA_SUCCESS);
  }

  std::minstd_rand random(1);
  cuevent_timeline timeline{};
  timeline.page = page;
  timeline.memory = timeline.lock = -1;
  for (int round = 0; round < 200; ++round) { // the functions return, whatever they find
    for (auto* at = reinterpret_cast<std::uint32_t*>(&page->word);
         at < reinterpret_cast<std::uint32_t*>(page + 1); ++at)
      *at = random() % 2 == 0 ? static_cast<std::uint32_t>(random()) : 0xffff'ffff;
    if (round % 2 == 0) page->abandoned = 0;
    if (round % 4 == 0) page->word = 7;
    static_cast<void>(semaphore.try_signal(stream, 100));
    static_cast<void>(semaphore.try_signal(200));
    static_cast<void>(semaphore.try_wait(stream, 300));
    static_cast<void>(semaphore.try_wait_for(300, 0s));
    static_cast<void>(cuevent_timeline_wait(page, 300, 0));
    static_cast<void>(cuevent_timeline_participant_died(&timeline));
    static_cast<void>(semaphore.status());
    semaphore.submitted();
  }
  semaphore.abandon();
  CHECK(semaphore.status() == TimelineStatus::abandoned);
}

TEST_CASE_METHOD(RecordingFixture, "throwing and non-throwing calls of a semaphore agree") {
  TimelineSemaphore semaphore(context);
  std::uint64_t next = 1;
  CHECK(BOTH(semaphore, signal, stream, next++) == CUDA_SUCCESS);
  CHECK(BOTH(semaphore, wait, stream, 1) == CUDA_SUCCESS);
  CHECK(BOTH(semaphore, wait, {context, nullptr}, 1) == CUDA_SUCCESS);
  CHECK(BOTH(semaphore, wait, stream, next + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(BOTH(semaphore, wait_when_submitted, stream, 1, 0ns) == CUDA_SUCCESS);
  semaphore.abandon();
  CHECK(BOTH(semaphore, wait_for, next, 0ns) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE_METHOD(RecordingFixture, "a fault of the context ends a wait on the host") {
  TimelineSemaphore semaphore(context);
  recording.fail_always("cuStreamIsCapturing", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THROWS_AS(semaphore.wait_for(1, std::chrono::hours(1)), IllegalAddress);
  recording.fail_always("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK_FALSE(semaphore.wait_for(1, 2ms)); // another stream is being captured
  recording.fail_nothing();
}

TEST_CASE_METHOD(RecordingFixture, "a thread that waits for a semaphore on the host sleeps") {
  const TimelineSemaphore semaphore(context);
  const auto sleeps = [&](auto wait) {
    rusage before{}, after{};
    getrusage(RUSAGE_THREAD, &before);
    CHECK_FALSE(wait());
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_nvcsw - before.ru_nvcsw; // how often the thread gave up its processor to wait
  };
  CHECK(sleeps([&] { return semaphore.wait_for(1, 300ms); }) > 3);
  CHECK(sleeps([&] { return semaphore.wait_when_submitted(stream, 1, 300ms); }) > 3);
}

TEST_CASE_METHOD(RecordingFixture, "a fork waits for a thread that is in a signal") {
  SemaphoreState* state = nullptr;
  REQUIRE(make_semaphore(context, 0, state).result == CUDA_SUCCESS);
  std::atomic<bool> forked{false};
  state->pending.fork_lock().lock(); // as in PendingSignals::add()
  std::thread forks([&] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    forked = true;
    waitpid(child, nullptr, 0);
  });
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(forked);
  state->pending.fork_lock().unlock();
  forks.join();
  Semaphores::instance().retire(*state);
}

TEST_CASE_METHOD(RecordingFixture, "the texts of refused calls say what to do") {
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
