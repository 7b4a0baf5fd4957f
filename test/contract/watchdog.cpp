// SPDX-License-Identifier: MIT
// A watchdog: a thread that queries events while other threads capture and replay graphs.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

using namespace cuevent;
using namespace test;

namespace {

/// A thread without a current context that repeatedly queries one complete and one pending event.
class Watchdog {
public:
  Watchdog(const DriverEvent& complete, const DriverEvent& pending)
      : thread_([this, &complete, &pending] { watch(complete, pending); }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { stop(); }

  /// Waits until a complete round has passed, or until the thread has stopped because of an error.
  void wait_for_a_round() const {
    for (const int begun = rounds_; rounds_ < begun + 2 && !gone_;)
      std::this_thread::yield();
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // The observations, valid after stop().
  std::string error;
  int wrong_answers = 0;
  CUcontext current = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

private:
  void watch(const DriverEvent& complete, const DriverEvent& pending) {
    try {
      while (!stopped_) {
        const bool right = complete.query_relaxed() && complete.synchronize_for(1s) &&
                           !pending.query_relaxed() && !pending.synchronize_for(20us);
        if (!right) ++wrong_answers;
        ++rounds_;
      }
      complete.context().driver().table().cuCtxGetCurrent_v4000(&current);
      mode = test::capture_mode();
    } catch (const DriverError& caught) {
      error = caught.what();
    }
    gone_ = true;
  }

  std::atomic<bool> stopped_ = false, gone_ = false;
  std::atomic<int> rounds_ = 0;
  std::thread thread_; // last, because it uses the other members
};

} // namespace

TEST_CASE_METHOD(Fixture, "a watchdog breaks none of a thousand global captures and creates no context") {
  // The work uses a context of its own, so that the test would notice an activated primary context.
  context = Context();
  test::kept_primary() = Context();
  CHECK_FALSE(test::primary_is_active(0));
  const test::LiveHandles before = test::live_handles();
  {
    const Context home = Context::create(0, driver);
    const Stream stream(home), other(home);
    DriverEvent complete(home), pending(home), start(home, EventFlags::timing), end(home, EventFlags::timing);
    complete.record(other);
    complete.synchronize();
    const auto captured = [&](auto meanwhile) {
      StreamCapture capture(home, stream, CaptureMode::global);
      start.record(stream, RecordFlags::external);
      meanwhile();
      end.record(stream, RecordFlags::external);
      return capture.end();
    };
    GraphExec exec = captured([] {}).instantiate();
    Gate gate(other);
    pending.record(other);

    Watchdog watchdog(complete, pending);
    for (int i = 0; i < 1000; ++i) {
      CAPTURE(i);
      const Graph graph = captured([&] { watchdog.wait_for_a_round(); });
      REQUIRE(graph.event_nodes().records.size() == 2);
      exec.launch(stream);
      REQUIRE(end.synchronize_for(1min));
      REQUIRE(start.elapsed_time(end).count() >= 0);
    }
    watchdog.stop();
    gate.open();
    CHECK(watchdog.error.empty());
    CHECK(watchdog.wrong_answers == 0);
    CHECK(watchdog.current == nullptr);
    CHECK(watchdog.mode == test::capture_mode());
    CHECK(test::live_handles().contexts == before.contexts + 1);
    CHECK_FALSE(test::primary_is_active(0));
    CHECK(pending.synchronize_for(1min));
  }
}
