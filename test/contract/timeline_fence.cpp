// SPDX-License-Identifier: MIT
// Timeline fences. With --driver sim-32-bit, the device has no 64-bit memory operations.
#include "capture.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/sim.hpp>
#include <cuevent/timeline_fence.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(StreamFixture, "when a ticket is reached, so are all earlier ones", "[fence]") {
  TimelineFence fence(context, stream);
  const std::uint64_t done = fence.signal();
  CHECK(fence.wait_for(done, 1min));
  Gate gate(stream);
  const std::uint64_t first = fence.signal(), second = fence.signal();
  CHECK(first == done + 1);
  CHECK(second == done + 2);
  CHECK(fence.signalled() == second);
  CHECK(fence.reached(0));
  CHECK(fence.reached(done));
  CHECK_FALSE(fence.reached(first));
  CHECK(fence.completed() == done);
  CHECK_FALSE(fence.wait_for(first, 2ms));
  CHECK(fence.status() == CUDA_SUCCESS);
  gate.open();
  CHECK(fence.wait_for(second, 1min));
  CHECK(fence.reached(first));
  CHECK(fence.completed() == second);
  CHECK_FALSE(fence.reached(second + 1));
  CHECK_FALSE(fence.wait_for(second + 1, 2ms)); // not signalled yet, so nothing can complete it
}

TEST_CASE_METHOD(StreamFixture, "a reached ticket makes the writes of earlier work visible", "[fence]") {
  TimelineFence fence(context, stream);
  for (int i = 0; i < 200; ++i) {
    auto work = std::make_unique<std::atomic<int>>(0);
    REQUIRE(test::call<PFN_cuLaunchHostFunc_v10000>("cuLaunchHostFunc", 10000)(
                stream, [](void* written) { static_cast<std::atomic<int>*>(written)->store(7); },
                work.get()) == CUDA_SUCCESS);
    std::uint64_t ticket = 0;
    const CUresult signalled = fence.try_signal(ticket);
    if (signalled != CUDA_SUCCESS || fence.try_wait_for(ticket, 1min) != CUDA_SUCCESS) {
      CHECK(test::call<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000)(stream) == CUDA_SUCCESS);
      FAIL("the signal failed");
    }
    REQUIRE(*work == 7);
  }
}

TEST_CASE_METHOD(StreamFixture, "a stream of any context and device can wait for a ticket", "[fence]") {
  TimelineFence fence(context, stream);
  const auto waits = [&](const Context& of_waiting) {
    const Stream waiting(of_waiting);
    DriverEvent after(of_waiting);
    Gate gate(stream);
    const std::uint64_t ticket = fence.signal();
    fence.wait(waiting, ticket);
    after.record(waiting);
    CHECK_FALSE(after.query());
    CHECK_FALSE(fence.reached(ticket));
    gate.open();
    CHECK(after.synchronize_for(1min));
    CHECK(fence.reached(ticket));
    fence.wait(waiting, ticket); // already reached, so it does not hold the stream
    after.record(waiting);
    CHECK(after.synchronize_for(1min));
  };
  SECTION("the same context") { waits(context); }
  SECTION("another context") { waits(Context::create(0, driver)); }
  SECTION("another device") {
    if (test::device_count() < 2) SKIP("needs a second device");
    waits(Context::create(1, driver));
  }
}

TEST_CASE_METHOD(Fixture, "a fence keeps its owned context alive, and its memory does not", "[fence]") {
  const int before = test::live_handles().contexts;
  for (int i = 0; i < 3; ++i) {
    Context created = Context::create(0, driver);
    const Stream stream(created);
    TimelineFence fence(created, stream);
    created = Context();
    CHECK(test::live_handles().contexts == before + 1);
    CHECK(fence.wait_for(fence.signal(), 1min));
    created = fence.context(); // until the stream is destroyed
    fence = TimelineFence();
  }
  CHECK(test::live_handles().contexts == before);
}

namespace {

/// Threads that are joined even if an assertion of the test fails.
class Threads {
public:
  Threads() = default;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { join(); }

  template <class Function>
  void start(Function function) {
    threads_.emplace_back([this, function] {
      try {
        function();
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex_);
        error_ = error.what();
      }
    });
  }
  /// Rethrows an exception of one of the threads.
  std::string join() {
    for (std::thread& thread : threads_)
      thread.join();
    threads_.clear();
    return error_;
  }

private:
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::string error_;
};

} // namespace

TEST_CASE_METHOD(Fixture, "reading a fence from another thread harms no capture, even of its own stream",
                 "[fence]") {
  const Stream stream(context), other(context);
  TimelineFence own(context, stream), pending(context, other);
  DriverEvent end(context);
  CHECK(own.wait_for(own.signal(), 1min));
  Gate gate(other);
  const std::uint64_t complete = own.signalled(), never = pending.signal();
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::per_thread, CaptureMode::relaxed}) {
    StreamCapture capture(context, stream, mode);
    end.record(stream, RecordFlags::external);
    std::thread([&] {
      CHECK((own.reached(complete) && own.completed() >= complete && own.status() == CUDA_SUCCESS));
      CHECK(own.try_wait_for(complete + 1, 0ns) == CUDA_ERROR_NOT_READY);
      CHECK((!pending.reached(never) && pending.status() == CUDA_SUCCESS));
      CHECK(pending.try_wait_for(never, 20us) == CUDA_ERROR_NOT_READY);
      const TimelineFence passing(context, other);
    }).join();
    CHECK(capture.end().event_nodes().records.size() == 1);
  }
  gate.open();
  CHECK(pending.wait_for(never, 1min));
}

TEST_CASE_METHOD(Fixture, "a fault ends the wait for a ticket and returns its code", "[fence]") {
  if (!test::simulated()) SKIP("a fault ends the use of a device in its process");
  namespace sim = cuevent::sim;
  {
    const Driver faulty(sim::get_proc_address_of(1));
    const Context home = Context::create(0, faulty);
    CUstream stream = nullptr;
    {
      const ContextGuard guard(home);
      REQUIRE(faulty.entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000)(
                  &stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    }
    TimelineFence fence(home, stream);
    const std::uint64_t done = fence.signal();
    REQUIRE(fence.wait_for(done, 1min));
    sim::hold(stream);
    const std::uint64_t ticket = fence.signal();
    CHECK(fence.status() == CUDA_SUCCESS);
    CHECK_FALSE(fence.wait_for(ticket, 2ms));
    sim::make_context_fault(home.native_handle(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_THROWS_AS(fence.wait_for(ticket, std::chrono::nanoseconds::max()), IllegalAddress);
    CHECK(fence.try_wait_for(ticket, 0ns) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(fence.status() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(fence.reached(done));
    CHECK_FALSE(fence.reached(ticket));
    CHECK(fence.wait_for(done, 0ns)); // was done before
    CHECK_THROWS_AS(fence.signal(), IllegalAddress);
    CHECK(fence.signalled() == ticket);
  }
  sim::end_process(1);
}
