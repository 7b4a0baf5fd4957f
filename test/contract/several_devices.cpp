// SPDX-License-Identifier: MIT
// Several devices in one process.
#include "gate.hpp"
#include "semaphores.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/driver_event.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/stage_timer.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <chrono>
#include <thread>

using namespace cuevent;
using namespace test;

namespace {

/// Words of device memory, initially zero.
class Words {
public:
  explicit Words(const Context& context, std::size_t count = 1)
      : context_(Context::borrow(context.native_handle(), test::unfailing_driver())) {
    const ContextGuard guard(context_);
    REQUIRE(test::call<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020)(&address_, count * sizeof(unsigned)) ==
            CUDA_SUCCESS);
    REQUIRE(test::call<PFN_cuMemsetD32_v3020>("cuMemsetD32", 3020)(address_, 0, count) == CUDA_SUCCESS);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  ~Words() {
    const ContextGuard guard(context_);
    test::call<PFN_cuMemFree_v3020>("cuMemFree", 3020)(address_);
  }

  void fill(CUstream stream, unsigned value) const {
    const ContextGuard guard(context_);
    const auto fill = test::call<PFN_cuMemsetD32Async_v3020>("cuMemsetD32Async", 3020);
    REQUIRE(fill(address_, value, 1, stream) == CUDA_SUCCESS);
  }
  /// Copies the first word of `from`, which may be memory of another device.
  void copy(CUstream stream, std::size_t index, const Words& from) const {
    const ContextGuard guard(context_);
    const auto copy = test::call<PFN_cuMemcpyDtoDAsync_v3020>("cuMemcpyDtoDAsync", 3020);
    REQUIRE(copy(address_of(index), from.address_, sizeof(unsigned), stream) == CUDA_SUCCESS);
  }
  unsigned read(std::size_t index = 0) const {
    const ContextGuard guard(context_);
    unsigned value = 0;
    const auto copy = test::call<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH", 3020);
    REQUIRE(copy(&value, address_of(index), sizeof value) == CUDA_SUCCESS);
    return value;
  }

private:
  CUdeviceptr address_of(std::size_t index) const { return address_ + index * sizeof(unsigned); }

  const Context context_;
  CUdeviceptr address_ = 0;
};

} // namespace

TEST_CASE_METHOD(Fixture, "a semaphore orders streams of two devices, and each sees the data of the other") {
  const Context second = second_device(driver);
  const bool forwards = GENERATE(true, false);
  const Context &from = forwards ? context : second, &to = forwards ? second : context;
  constexpr unsigned rounds = 50;
  const Words word(from), seen(to, rounds);
  const Stream producer(from), consumer(to);
  TimelineSemaphore semaphore(context);
  const Release release(semaphore);
  Gate gate(producer); // so that no luck puts the first round in order
  for (unsigned round = 1; round <= rounds; ++round) {
    word.fill(producer, round);
    semaphore.signal(producer, 2 * round - 1);
    semaphore.wait(consumer, 2 * round - 1);
    seen.copy(consumer, round - 1, word);
    semaphore.signal(consumer, 2 * round);
    semaphore.wait(producer, 2 * round);
  }
  CHECK_FALSE(semaphore.wait_for(1, 5ms));
  gate.open();
  CHECK(semaphore.wait_for(2 * rounds, 1min));
  for (unsigned round = 1; round <= rounds; ++round)
    CHECK(seen.read(round - 1) == round);
}

TEST_CASE_METHOD(Fixture, "work on one device does not initialize another device") {
  if (test::device_count() < 2) SKIP("needs a second device");
  const int used = GENERATE(0, 1);
  CAPTURE(used);
  context = Context(); // the fixture retains it again
  test::kept_primary() = Context();
  {
    const Context only = Context::primary(used, driver);
    const Stream stream(only), other(only);
    DriverEvent start(only, EventFlags::timing),
        end = DriverEvent::for_stream(stream, EventFlags::timing, driver);
    start.record(stream);
    end.record(CU_STREAM_LEGACY);
    start.wait(other);
    start.wait({only, nullptr});
    CHECK(start.synchronize_for(1min));
    end.synchronize();
    CHECK(end.query_relaxed());
    std::thread([&] { return end.try_query_relaxed(); }).join();
    end.record(stream);
    end.synchronize();
    start.elapsed_time(end);
    EventPool pool(only);
    static_cast<void>(pool.acquire());
    TimelineFence fence(only, stream);
    CHECK(fence.wait_for(fence.signal(), 1min));
    StreamCapture capture(only, stream);
    end.record(stream, RecordFlags::external);
    capture.end().instantiate().launch(stream);
    end.synchronize();
    CHECK_FALSE(test::primary_is_active(1 - used));
    CHECK(test::primary_is_active(used));
  }
}

TEST_CASE_METHOD(Fixture, "pools, fences, queues and timers of two devices work concurrently") {
  const std::array contexts{context, second_device(driver)};
  struct Device {
    explicit Device(const Context& of)
        : stream(of), pool(of), fence(of, stream), queue(of), timer(of), stage(timer.stage("fill")),
          word(of) {}
    const Stream stream;
    EventPool pool;
    TimelineFence fence;
    CompletionQueue queue;
    StageTimer timer;
    const StageId stage;
    const Words word;
    int completed = 0;
  };
  Device near(contexts[0]), far(contexts[1]);
  constexpr unsigned rounds = 20;
  for (unsigned i = 1; i <= rounds; ++i) {
    for (Device* const device : {&near, &far}) {
      Device& other = device == &near ? far : near;
      device->timer.open(device->stream, device->stage);
      device->word.fill(device->stream, i);
      device->timer.close(device->stream);
      PooledEvent filled = device->pool.acquire();
      filled.record(device->stream);
      filled.wait(other.stream);
      other.fence.wait(device->stream, other.fence.signalled());
      device->fence.signal();
      device->queue.when_complete(device->stream,
                                  [device](CUresult result) { device->completed += result == CUDA_SUCCESS; });
    }
  }
  for (Device* const device : {&near, &far}) {
    CHECK(device->fence.wait_for(device->fence.signalled(), 1min));
    DriverEvent last = DriverEvent::for_stream(device->stream, EventFlags::none, driver);
    last.record(device->stream);
    CHECK(last.synchronize_for(1min));
    device->queue.poll();
    CHECK(device->completed == int(rounds));
    device->timer.collect();
    CHECK(device->timer.report().stages.front().count == rounds);
    CHECK(device->word.read() == rounds);
  }
  CHECK_THROWS_AS(near.timer.open(far.stream, near.stage), ContextMismatch);
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(Fixture, "a capture can fork to another device and join back") {
  const Context second = second_device(driver);
  const Stream origin(context), far(second);
  const Words near_word(context), far_word(second);
  DriverEvent forked(context), joined(second), done(context), far_done(second, EventFlags::timing);
  StreamCapture capture(context, origin,
                        GENERATE(CaptureMode::global, CaptureMode::per_thread, CaptureMode::relaxed));
  near_word.fill(origin, 1);
  forked.record(origin);
  forked.wait(far);
  CHECK(capture_status(second, far) == CaptureStatus::active);
  far_word.fill(far, 2);
  far_done.record(far, RecordFlags::external);
  joined.record(far);
  joined.wait(origin);
  near_word.fill(origin, 3);
  const Graph graph = capture.end();
  CHECK(capture_status(second, far) == CaptureStatus::none);
  CHECK(far_word.read() == 0);
  GraphExec exec = graph.instantiate();
  for (int launch = 0; launch < 2; ++launch) {
    exec.launch(origin);
    done.record(origin);
    CHECK(done.synchronize_for(1min));
    CHECK(far_done.query());
    CHECK(near_word.read() == 3);
    CHECK(far_word.read() == 2);
  }
}

TEST_CASE_METHOD(Fixture,
                 "a relaxed query of another device's event harms no capture, and a plain one does") {
  const Context second = second_device(driver);
  const Stream stream(context), far(second);
  DriverEvent theirs(second);
  theirs.record(far);
  theirs.synchronize();
  StreamCapture capture(context, stream, CaptureMode::global);
  SECTION("relaxed") {
    CHECK(theirs.query_relaxed());
    CHECK(theirs.synchronize_for(1s));
    bool elsewhere = false;
    std::thread([&] { elsewhere = theirs.query_relaxed(); }).join();
    CHECK(elsewhere);
    CHECK(capture_status(context, stream) == CaptureStatus::active);
    CHECK(capture.end());
  }
  SECTION("plain") {
    CHECK_THROWS_AS(theirs.query(), StreamCaptureUnsupported);
    CHECK(capture_status(context, stream) == CaptureStatus::invalidated);
  }
}
