// SPDX-License-Identifier: MIT
// Everything that threads can do with a CompletionQueue, at the same time.
#include "recording_fixture.hpp"

#include <cuevent/completion_queue.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

constexpr std::size_t submitters = 6, sleepers = 6, cancellers = 4, each = 200;

struct Callback {
  CompletionToken token;
  std::atomic<bool> submitted{false};
  std::atomic<int> times{0}, cancelled{0};
  CUresult result = CUDA_SUCCESS;
};

/// One queue from its beginning to its end, which comes while a thread runs a callback and others cancel.
class Round {
public:
  Round(RecordingFixture& fixture, bool lanes)
      : fixture_(fixture), lanes_(lanes), queue_(std::make_unique<CompletionQueue>(fixture.context)),
        descriptor_(dup(queue_->native_handle())) {}
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;
  ~Round() { close(descriptor_); }

  void run() {
    std::vector<std::thread> submitting, others;
    for (std::size_t t = 0; t < submitters; ++t)
      submitting.emplace_back([this, t] { submit(t); });
    for (std::size_t t = 0; t < sleepers; ++t)
      others.emplace_back([this, t] { sleep(t); });
    for (std::size_t t = 0; t < cancellers; ++t)
      others.emplace_back([this, t] { cancel(t); });
    for (std::thread& thread : submitting)
      thread.join();
    queue_->when_complete(stream_handle(9), [this](CUresult) { // the queue ends during this callback
      holds_ = true;
      while (!ended_)
        std::this_thread::yield();
    });
    while (!holds_)
      std::this_thread::yield();
    stop_ = true;
    queue_->when_complete(stream_handle(8), [](CUresult) {}); // wakes a sleeping thread
    while (sleeping_ != 1)
      std::this_thread::yield();
    queue_.reset();
    ended_ = true;
    for (std::thread& thread : others)
      thread.join();
  }

  /// The callbacks that did not run once, or whose token and result disagree.
  std::size_t wrong() const {
    std::size_t count = 0;
    for (const Callback& callback : callbacks_) {
      const bool was_cancelled = callback.result == CompletionToken::cancelled;
      if (callback.times != 1 || callback.cancelled != (was_cancelled ? 1 : 0)) ++count;
    }
    return count;
  }
  int lost() const { return lost_; } // wake-ups

private:
  void submit(std::size_t t) {
    CompletionQueue& queue = *queue_;
    const CompletionLane lane = queue.lane(stream_handle(t + 1));
    for (std::size_t i = t * each; i < (t + 1) * each; ++i) {
      Callback& callback = callbacks_[i];
      const auto note = [&callback](CUresult result) {
        callback.result = result;
        ++callback.times;
      };
      if (lanes_)
        lane.when_complete(note, &callback.token);
      else
        queue.when_complete(stream_handle(i % 5 + 1), note, &callback.token);
      callback.submitted = true;
      if (i % 32 == 0) std::this_thread::sleep_for(100us);
    }
    fixture_.recording.calls();
  }

  void sleep(std::size_t t) {
    CompletionQueue& queue = *queue_;
    pollfd wake{descriptor_, POLLIN, 0};
    for (int i = 0; !stop_; ++i) {
      if (t % 2 == 0) fixture_.recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY);
      queue.poll(PollLimit{i % 4 == 0 ? std::size_t{1} : ~std::size_t{0}});
      fixture_.recording.calls();
      if (ended_) break; // this thread ran the callback during which the queue ended, and the queue is gone
      if (stop_ || !queue.arm()) continue;
      if (!stop_ && ::poll(&wake, 1, 10'000) == 0) ++lost_;
    }
    if (!ended_) queue.when_complete(stream_handle(8), [](CUresult) {}); // wakes the next one
    --sleeping_;
  }

  void cancel(std::size_t t) {
    for (std::size_t i = t; i < callbacks_.size(); i += 3) { // two of the threads cancel the same callbacks
      while (!callbacks_[i].submitted)
        std::this_thread::yield();
      if (i % 2 == 0 && callbacks_[i].token.cancel()) ++callbacks_[i].cancelled;
      if (i % 64 == 0) std::this_thread::sleep_for(100us);
    }
  }

  RecordingFixture& fixture_;
  const bool lanes_;
  std::atomic<int> lost_{0};
  std::atomic<bool> holds_{false}, stop_{false}, ended_{false};
  std::atomic<std::size_t> sleeping_{sleepers};
  std::vector<Callback> callbacks_{submitters * each};
  std::unique_ptr<CompletionQueue> queue_;
  const int descriptor_;
};

} // namespace

TEST_CASE_METHOD(
    RecordingFixture,
    "16 threads submit, poll, arm, sleep and cancel, and the queue ends meanwhile: each callback "
    "runs once, and no wake-up is lost",
    "[threads]") {
  for (int i = 0; i < 10; ++i) {
    Round round(*this, i % 2 == 0);
    round.run();
    CHECK(round.wrong() == 0);
    CHECK(round.lost() == 0);
  }
}
