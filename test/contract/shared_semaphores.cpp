// SPDX-License-Identifier: MIT
// Semaphores that are exported and imported, in one process, and abandoned ones.
#include "eventually.hpp"
#include "gate.hpp"
#include "semaphores.hpp"
#include "stream.hpp"

#include <cuevent/driver_event.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(Fixture, "an imported semaphore has the value, the signals and the waits of the other") {
  const Context second = Context::create(0, driver);
  const Stream stream(context), waiting(second);
  TimelineSemaphore semaphore(context, 1);
  TimelineSemaphore joined = join(second, semaphore);
  CHECK(joined.value() == 1);
  Gate gate(stream);
  semaphore.signal(stream, 2);
  CHECK(joined.submitted() == 2);
  joined.wait(waiting, 2);
  joined.signal(waiting, 3);
  CHECK_FALSE(semaphore.wait_for(3, 2ms));
  gate.open();
  CHECK(semaphore.wait_for(3, 1min));
  CHECK(joined.value() == 3);
  joined.signal(4);
  CHECK(semaphore.value() == 4);
  CHECK(semaphore.status() == TimelineStatus::active);
  CHECK(joined.status() == TimelineStatus::active);
  joined = TimelineSemaphore(); // leaves, which is not a death
  CHECK(semaphore.status() == TimelineStatus::active);
}

TEST_CASE_METHOD(Fixture, "a descriptor that is not an exported semaphore is refused") {
  const auto refused = [&](int descriptor) {
    TimelineSemaphore none;
    const CUresult result = TimelineSemaphore::try_import(none, context, descriptor);
    CHECK_FALSE(none);
    CHECK(fcntl(descriptor, F_GETFD) >= 0); // the caller still owns it
    return result;
  };
  TimelineSemaphore semaphore(context);
  SECTION("another kind of file") {
    int pipes[2];
    REQUIRE(pipe(pipes) == 0);
    const Handle read(pipes[0]), write(pipes[1]);
    CHECK(refused(read.get()) == CUDA_ERROR_INVALID_VALUE);
    CHECK_THROWS_AS(TimelineSemaphore::import(context, read.get()), InvalidValue);
    CHECK_THROWS_AS(TimelineSemaphore::import(context, -1), InvalidValue);
  }
  SECTION("a memfd of something else, or one that can shrink") {
    for (const int size : {100, 4096}) {
      const Handle file(memfd_create("other", MFD_ALLOW_SEALING | MFD_CLOEXEC));
      REQUIRE(ftruncate(file.get(), size) == 0);
      CHECK(refused(file.get()) == CUDA_ERROR_INVALID_VALUE);
      REQUIRE(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
      CHECK(refused(file.get()) == CUDA_ERROR_INVALID_VALUE);
    }
  }
  SECTION("another layout, or another number of places") {
    const Handle handle(semaphore.export_handle());
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, handle.get(), 0);
    REQUIRE(page != MAP_FAILED);
    auto* const words = static_cast<std::uint32_t*>(page);
    REQUIRE(words[2] == 2);
    for (const std::uint32_t layout : {1U, 3U}) {
      words[2] = layout;
      CHECK(refused(handle.get()) == CUDA_ERROR_NOT_SUPPORTED);
      CHECK_THROWS_AS(TimelineSemaphore::import(context, handle.get()), NotSupported);
    }
    words[2] = 2;
    ++words[3];
    CHECK(refused(handle.get()) == CUDA_ERROR_NOT_SUPPORTED);
    // The page of layout 1 was smaller.
    const Handle small(memfd_create("other", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    REQUIRE(write(small.get(), page, 64) == 64);
    REQUIRE(ftruncate(small.get(), 4096) == 0);
    REQUIRE(fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    REQUIRE(lseek(small.get(), 0, SEEK_SET) == 0);
    CHECK(refused(small.get()) == CUDA_ERROR_NOT_SUPPORTED);
    munmap(page, 4096);
  }
  SECTION("a descriptor that cannot be written to") {
    const Handle handle(semaphore.export_handle());
    const std::string name = "/proc/self/fd/" + std::to_string(handle.get());
    const Handle read_only(open(name.c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(refused(read_only.get()) == CUDA_ERROR_INVALID_VALUE);
    CHECK_THROWS_AS(TimelineSemaphore::import(context, read_only.get()), InvalidValue);
    constexpr int future_write = 0x10; // F_SEAL_FUTURE_WRITE, which C libraries before 2.32 lack
    for (const int seal : {F_SEAL_WRITE, future_write}) {
      const Handle file(memfd_create("other", MFD_ALLOW_SEALING | MFD_CLOEXEC));
      REQUIRE(ftruncate(file.get(), 16384) == 0);
      REQUIRE(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | seal) == 0);
      CHECK(refused(file.get()) == CUDA_ERROR_INVALID_VALUE);
    }
  }
  SECTION("a handle that was imported before") {
    Handle handle(semaphore.export_handle());
    const Handle copy(dup(handle.get()));
    const TimelineSemaphore joined = TimelineSemaphore::import(context, handle.get());
    handle.taken();
    CHECK(refused(copy.get()) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_THROWS_AS(TimelineSemaphore::import(context, copy.get()), InvalidHandle);
  }
}

TEST_CASE_METHOD(Fixture, "a handle that is closed before it is imported counts as a death") {
  TimelineSemaphore semaphore(context);
  Handle handle(semaphore.export_handle());
  CHECK(semaphore.status() == TimelineStatus::active);
  handle.end();
  CHECK(semaphore.status() == TimelineStatus::participant_died);
  CHECK(semaphore.value() == 0); // only the status tells
  semaphore.abandon_on_death();
  CHECK(test::eventually([&] { return semaphore.status() == TimelineStatus::abandoned; }));
}

TEST_CASE_METHOD(Fixture,
                 "a participant that has ended abandons nothing, also while its signals are queued") {
  const Stream stream(context);
  TimelineSemaphore semaphore(context);
  TimelineSemaphore joined = join(context, semaphore);
  joined.abandon_on_death();
  Gate gate(stream);
  joined.signal(stream, 1);
  joined = TimelineSemaphore();
  Handle(semaphore.export_handle()).end();                     // a death
  std::this_thread::sleep_for(std::chrono::milliseconds(300)); // the guard looks after 150 ms at the latest
  CHECK(semaphore.status() == TimelineStatus::participant_died);
  gate.open();
  CHECK(semaphore.wait_for(1, std::chrono::minutes(1)));
}

TEST_CASE_METHOD(Fixture, "64 participants can share a semaphore, and places are used again") {
  TimelineSemaphore semaphore(context);
  for (int round = 0; round < 2; ++round) {
    std::vector<TimelineSemaphore> joined;
    for (int i = 0; i < 63; ++i)
      joined.push_back(join(context, semaphore));
    CHECK_THROWS_AS(semaphore.export_handle(), OperatingSystem);
    CHECK(semaphore.status() == TimelineStatus::active);
    joined.back().signal(static_cast<std::uint64_t>(round) + 1);
  }
  CHECK(semaphore.value() == 2);
}

TEST_CASE_METHOD(Fixture, "abandoning releases threads and streams, and ends all signals") {
  const Stream waiting(context);
  TimelineSemaphore semaphore(context);
  const Release release(semaphore);
  TimelineSemaphore joined = join(context, semaphore);
  DriverEvent after(context);
  semaphore.wait(waiting, 5, WaitOrder::before_signal);
  after.record(waiting);
  CUresult waited = CUDA_ERROR_UNKNOWN;
  constexpr auto forever = std::chrono::hours::max(); // a stepped clock may pass a minute before abandon()
  std::thread thread([&] { waited = semaphore.try_wait_for(TimelineSemaphore::max_value, forever); });
  joined.abandon();
  thread.join();
  CHECK(waited == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(after.synchronize_for(1min));
  CHECK(semaphore.value() == TimelineSemaphore::released_value);
  CHECK(semaphore.reached(TimelineSemaphore::max_value));
  CHECK(semaphore.status() == TimelineStatus::abandoned);
  CHECK(joined.status() == TimelineStatus::abandoned);
  CHECK_THROWS_AS(semaphore.wait_for(1, 0ns), SemaphoreAbandoned);
  CHECK_THROWS_AS(semaphore.signal(1), SemaphoreAbandoned);
  CHECK_THROWS_AS(semaphore.signal(waiting, 1), SemaphoreAbandoned);
  CHECK_THROWS_AS(semaphore.wait(waiting, 1), SemaphoreAbandoned);
  CHECK_THROWS_AS(semaphore.wait_when_submitted(waiting, 1, 0ns), SemaphoreAbandoned);
}

TEST_CASE_METHOD(Fixture, "an abandoned semaphore stays released although a queued signal lowers it") {
  const Stream stream(context), waiting(context);
  std::optional<TimelineSemaphore> semaphore(context);
  DriverEvent lowered(context), after(context);
  Gate gate(stream);
  {
    const Release release(*semaphore);
    semaphore->signal(stream, 1);
    lowered.record(stream);
    semaphore->wait(waiting, 9, WaitOrder::before_signal);
    after.record(waiting);
  }
  SECTION("while the semaphore lives") {
    gate.open();
    CHECK(lowered.synchronize_for(1min));
    CHECK_THROWS_AS(semaphore->wait_for(1, 0ns), SemaphoreAbandoned); // the value may be 1 now
    CHECK(test::eventually([&] { return semaphore->value() == TimelineSemaphore::released_value; }));
  }
  SECTION("after it was destroyed") {
    semaphore.reset();
    gate.open();
  }
  CHECK(after.synchronize_for(1min));
}
