// SPDX-License-Identifier: MIT
// Which callbacks a poll runs: their order, its limits, and polls on several threads.
#include "on_threads.hpp"
#include "queue_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(QueueFixture, "callbacks of a stream run in the order of submission") {
  all_pending();
  for (int i = 0; i < 100; ++i) {
    queue.when_complete(stream_handle(64 * (std::size_t(i) % 3)), note(i));
    if (i % 10 == 0) queue.poll(); // takes over the submissions so far
  }
  all_complete();
  CHECK(queue.poll() == 100);
  std::stable_sort(ran.begin(), ran.end(), [](auto a, auto b) { return a.first % 3 < b.first % 3; });
  for (std::size_t i = 1; i < ran.size(); ++i)
    CHECK((ran[i].first % 3 != ran[i - 1].first % 3 || ran[i].first > ran[i - 1].first));
}

TEST_CASE_METHOD(QueueFixture, "a stream whose oldest work is pending delays no other stream") {
  all_pending();
  for (int i = 0; i < 6; ++i)
    queue.when_complete(stream_handle(i % 2 ? 1 : 2), note(i));
  queue.poll();
  all_complete();
  // For stream 1, which the poll queries first.
  recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY);
  CHECK(queue.poll() == 3);
  CHECK(order() == std::vector{0, 2, 4});
  CHECK(queue.poll() == 3);
  CHECK(order() == std::vector{0, 2, 4, 1, 3, 5});
}

TEST_CASE_METHOD(QueueFixture, "a poll that finds nothing costs one query per stream") {
  constexpr std::size_t callbacks = 100'000, streams = 64;
  all_pending();
  for (std::size_t i = 0; i < callbacks; ++i)
    queue.when_complete(stream_handle(0x100 * (i % streams)), note());
  CHECK(queue.pending() == callbacks);
  recording.calls();
  for (int sweep = 0; sweep < 3; ++sweep) {
    CHECK(queue.poll() == 0);
    const Names calls = recording.calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuEventQuery") == streams);
    CHECK(calls.size() == streams + 3); // a look at the context, and the capture mode to relaxed and back
  }
  all_complete();
  CHECK(queue.poll() == callbacks);
  CHECK(results == Results(callbacks, CUDA_SUCCESS));
}

TEST_CASE_METHOD(QueueFixture, "callbacks may submit again, and a poll inside a callback runs nothing") {
  int rounds = 0;
  std::size_t nested = 0;
  struct Again {
    CompletionQueue& queue;
    CUstream stream;
    int& rounds;
    std::size_t& nested;
    void operator()(CUresult) const {
      nested += queue.poll();
      if (++rounds < 1000) queue.when_complete(stream, *this);
    }
  };
  queue.when_complete(stream, Again{queue, stream, rounds, nested});
  for (int i = 0; i < 1000; ++i) {
    CHECK(queue.pending() == 1);
    CHECK(queue.poll() == 1);
  }
  CHECK(rounds == 1000);
  CHECK(nested == 0);
  CHECK(queue.pending() == 0);
  CHECK(RecordingDriver::live_events() == events_before + 1); // the same event each time
}

TEST_CASE_METHOD(QueueFixture, "a poll stops after its number of callbacks") {
  for (int i = 0; i < 5; ++i)
    queue.when_complete(stream, note());
  recording.calls();
  CHECK(queue.poll(PollLimit{0}) == 0);
  CHECK(recording.calls().empty());
  CHECK(queue.poll(PollLimit{2}) == 2);
  CHECK(queries() == 2);
  CHECK(queue.poll(PollLimit{2}) == 2);
  CHECK(queue.poll(PollLimit{2}) == 1);
  CHECK(queue.poll(PollLimit{2}) == 0);
  CHECK(results == Results(5, CUDA_SUCCESS));
}

namespace {

/// A clock that only the test moves.
long long test_time = 0;

CUresult with_test_clock(const char* name, void** function, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult* status) {
  const std::string_view asked = name;
  if (asked == "cueventClockNow")
    return *function = reinterpret_cast<void*>(+[] { return test_time; }), CUDA_SUCCESS;
  if (asked == "cueventPause")
    return *function = reinterpret_cast<void*>(+[](long long time) { test_time += time; }), CUDA_SUCCESS;
  return RecordingDriver::get_proc_address(name, function, version, flags, status);
}

} // namespace

TEST_CASE_METHOD(QueueFixture, "a poll stops at its deadline") {
  using namespace std::chrono_literals;
  const Context timed = Context::borrow(context_handle(1), Driver(with_test_clock));
  CompletionQueue on_test_clock(timed);
  for (int i = 0; i < 6; ++i)
    on_test_clock.when_complete(stream_handle(std::size_t(i)), [this](CUresult result) {
      results.push_back(result);
      test_time += 10;
    });
  recording.calls();
  PollLimit limit;
  limit.deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(test_time));
  CHECK(on_test_clock.poll(limit) == 0); // it has passed
  CHECK(on_test_clock.poll(PollLimit{3, Deadline()}) == 0);
  CHECK(recording.calls().empty());
  CHECK(on_test_clock.poll(PollLimit{3, Deadline(25ns)}) == 3);
  CHECK(on_test_clock.poll(PollLimit{3, Deadline(20ns)}) == 2);
  CHECK(on_test_clock.poll(PollLimit{3, Deadline(std::chrono::hours::max())}) == 1);
  CHECK(results == Results(6, CUDA_SUCCESS));
}

TEST_CASE_METHOD(QueueFixture, "no stream starves while polls are limited") {
  const std::uintptr_t apart =
      GENERATE(std::uintptr_t{1}, std::uintptr_t{64}); // with 64 the queue keeps all streams in one list
  constexpr std::size_t streams = 5;
  std::array<int, streams> counts{};
  struct Again { // always has completed work
    CompletionQueue& queue;
    CUstream stream;
    int& count;
    void operator()(CUresult) const {
      ++count;
      static_cast<void>(queue.try_when_complete(stream, *this)); // refused at the end of the queue
    }
  };
  for (std::size_t i = 0; i < streams; ++i)
    for (int each = 0; each < 3; ++each)
      queue.when_complete(stream_handle(i * apart), Again{queue, stream_handle(i * apart), counts[i]});
  for (int i = 0; i < 100; ++i)
    CHECK(queue.poll(PollLimit{1}) == 1);
  for (const int each : counts)
    CHECK(each == 100 / int(streams));
  queue = CompletionQueue(); // while the callbacks can still count
}

TEST_CASE_METHOD(QueueFixture, "a long callback delays only its own stream if other threads poll",
                 "[threads]") {
  std::size_t done = 0, pending = 0;
  Results before, of_others;
  queue.when_complete(stream, [&](CUresult) {
    std::thread([&] {
      done = queue.poll() + queue.poll();
      pending = queue.pending();
    }).join();
    before = results;
  });
  queue.when_complete(stream, note());
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream_handle(std::size_t(7 + 64 * i)),
                        [&](CUresult result) { of_others.push_back(result); });
  CHECK(queue.poll() == 2);
  CHECK(done == 3);
  CHECK(of_others == Results(3, CUDA_SUCCESS));
  CHECK(before.empty());
  CHECK(pending == 2); // the callback that was running, and the one behind it
  CHECK(results == Results{CUDA_SUCCESS});
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "a poll goes on correctly after another one has changed its list of streams",
                 "[threads]") {
  std::size_t done = 0;
  const auto stream_of_one_list = [](std::size_t i) { return stream_handle(7 + 64 * i); };
  queue.when_complete(stream_of_one_list(0), note());
  queue.when_complete(stream_of_one_list(1), [&](CUresult) {
    std::thread([&] {
      RecordingDriver of_this_thread;
      done = queue.poll(); // the streams before and behind this one
    }).join();
  });
  queue.when_complete(stream_of_one_list(2), note());
  recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY); // of the first stream
  CHECK(queue.poll(PollLimit{10, Deadline(std::chrono::milliseconds(50))}) == 1);
  CHECK(done == 2);
  CHECK(queries() == 2); // none of an event that is not pending any more
}

TEST_CASE_METHOD(QueueFixture,
                 "a poll runs no callback submitted during it, even if another poll takes it over",
                 "[threads]") {
  bool later = false;
  queue.when_complete(stream_handle(1), [&](CUresult) {
    std::thread([&] {
      RecordingDriver of_this_thread;
      queue.when_complete(stream_handle(5), [&](CUresult) { later = true; });
      queue.poll(PollLimit{0}); // takes the submission over, and stops at the second stream
    }).join();
  });
  queue.when_complete(stream_handle(2), note());
  queue.poll();
  CHECK_FALSE(later);
  queue.poll();
  CHECK(later);
}

TEST_CASE_METHOD(QueueFixture, "a poll makes no driver call while all pending callbacks run elsewhere",
                 "[threads]") {
  Names calls{"none"};
  queue.when_complete(stream, [&](CUresult) {
    std::thread([&] {
      RecordingDriver of_this_thread;
      queue.poll();
      calls = of_this_thread.calls();
    }).join();
  });
  CHECK(queue.poll() == 1);
  CHECK(calls.empty());
}

TEST_CASE_METHOD(QueueFixture, "a callback that throws while others poll leaves its stream usable",
                 "[threads]") {
  HookedErrors hooked;
  std::size_t done = 0;
  queue.when_complete(stream, [&](CUresult) {
    std::thread([&] { done = queue.poll(); }).join();
    throw InvalidValue("cuLaunchKernel");
  });
  queue.when_complete(stream, note());
  queue.when_complete(stream_handle(9), note());
  CHECK(queue.poll() == 2);
  CHECK(done == 1);
  CHECK(hooked.take() == CUDA_ERROR_INVALID_VALUE);
  CHECK(results == Results(2, CUDA_SUCCESS));
}

TEST_CASE_METHOD(QueueFixture, "up to 32 callbacks run at the same time, and later ones are not lost",
                 "[threads]") {
  constexpr std::size_t most = 32, streams = 40;
  std::atomic<std::size_t> running{0}, done{0};
  std::atomic<bool> go_on{false};
  for (std::size_t i = 0; i < streams; ++i)
    queue.when_complete(stream_handle(i), [&](CUresult) {
      ++running;
      while (!go_on)
        std::this_thread::yield();
      ++done;
    });
  on_threads(most + 1, [&](std::size_t t) {
    while (t < most && queue.poll() == 0)
      std::this_thread::yield();
    if (t < most) return;
    while (running < most)
      std::this_thread::yield();
    CHECK(queue.poll() == 0);
    CHECK(queue.pending() == streams);
    go_on = true;
  });
  poll_until_empty();
  CHECK(done == streams);
}

TEST_CASE_METHOD(RecordingFixture,
                 "each callback runs once and in order while threads submit and poll concurrently",
                 "[threads]") {
  static constexpr std::size_t submitters = 8, pollers = 8, streams = 5, each = 2000;
  CompletionQueue queue(context);
  struct Line { // one submitter's callbacks for one stream; written only in polls
    std::size_t done = 0;
    bool in_order = true;
  };
  std::array<std::array<Line, streams>, submitters> lines;
  std::atomic<std::size_t> submitted{0}, done{0}, returned{0};
  on_threads(submitters + pollers, [&](std::size_t t) {
    for (std::size_t i = 0; t < submitters && i < each; ++i) {
      Line& line = lines[t][i % streams];
      queue.when_complete(stream_handle(i % streams + 3),
                          [&line, &queue, &submitted, &done, i](CUresult result) {
                            if (result != CUDA_SUCCESS || line.done != i / streams) line.in_order = false;
                            ++line.done;
                            ++done;
                            if (i % 100 != 0) return;
                            ++submitted;
                            queue.when_complete(stream_handle(1), [&done](CUresult) { ++done; });
                          });
      ++submitted;
    }
    for (int i = 0; t >= submitters && done < submitters * (each + each / 100); ++i) {
      // For this thread's stream.
      if (i % 2 == 0) recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY);
      returned += queue.poll();
      recording.calls();
    }
  });
  CHECK(submitted == done);
  CHECK(returned == done);
  CHECK(queue.pending() == 0);
  for (const auto& of_thread : lines)
    for (std::size_t s = 0; s < streams; ++s) {
      CHECK(of_thread[s].done == (each + streams - 1 - s) / streams);
      CHECK(of_thread[s].in_order);
    }
}
