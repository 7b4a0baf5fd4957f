// SPDX-License-Identifier: MIT
// The end of a queue, of its context and of its process, and forked children.
#include "forked_child.hpp"
#include "queue_fixture.hpp"
#include "scheduling/completion_queue_state.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <pthread.h>
#include <string>
#include <thread>

using namespace cuevent;
using namespace test;

namespace {

/// Reaches private members, because naming them in an explicit instantiation is allowed.
template <class Name, class Owner, class Type, Type Owner::*Member>
struct Opened {
  friend Type& member(Name, Owner& owner) { return owner.*Member; }
};
using State = CompletionQueueState;
struct StateOf {};
struct InboxOf {};
struct ReturnedOf {};
struct SubmissionsOf {};
State*& member(StateOf, CompletionQueue& queue);
std::atomic<std::uint64_t>& member(InboxOf, State& state);
std::atomic<std::uint32_t>& member(ReturnedOf, State& state);
std::atomic<std::uint64_t>& member(SubmissionsOf, State& state);
template struct Opened<StateOf, CompletionQueue, State*, &CompletionQueue::state_>;
template struct Opened<InboxOf, State, std::atomic<std::uint64_t>, &State::inbox_>;
template struct Opened<ReturnedOf, State, std::atomic<std::uint32_t>, &State::returned_>;
template struct Opened<SubmissionsOf, State, std::atomic<std::uint64_t>, &State::submissions_>;

} // namespace

TEST_CASE_METHOD(QueueFixture, "no event is queried or recorded after its context has ended") {
  constexpr CUresult lost = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const auto lose = [this] { recording.fail_always("cuCtxGetId", lost); };
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream_handle(i % 2 ? 1 : 2), note());
  recording.calls();
  SECTION("before the poll") {
    lose();
    CHECK(queue.poll() == 3);
    CHECK(results == Results(3, lost));
    CHECK(recording.calls() == Names{"cuCtxGetId"});
  }
  SECTION("in a callback") {
    queue.when_complete(stream_handle(1), [&](CUresult) { lose(); });
    queue.when_complete(stream_handle(1), note());
    queue.poll();
    CHECK(std::count(results.begin(), results.end(), lost) >= 1);
    CHECK(results.back() == lost);
    CHECK(queries() + std::count(results.begin(), results.end(), lost) == 5);
  }
  SECTION("before the end of the queue") {
    lose();
    queue = CompletionQueue();
    CHECK(results == Results(3, lost));
    const Names calls = recording.calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuCtxGetId") == std::ptrdiff_t(calls.size()));
  }
  SECTION("before a submission for a stream of a later context") {
    lose();
    CHECK(queue.try_when_complete(stream, note()) == lost);
    CompletionLane lane;
    CHECK(queue.try_lane(lane, stream) == lost);
    const Names calls = recording.calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuEventRecord") == 0);
    CHECK(queue.pending() == 3);
  }
  queue = CompletionQueue();
  while (RecordingDriver::live_events() != events_before)
    driver.table().cuEventDestroy_v4000(nullptr); // the stubs still count them
}

TEST_CASE_METHOD(QueueFixture, "a queue that ends while two threads run callbacks is finished by the last",
                 "[threads]") {
  std::optional<CompletionQueue> mine{context};
  std::size_t inner = 0;
  mine->when_complete(stream, [&](CUresult) {
    std::thread([&] { inner = mine->poll(); }).join(); // runs the callback that ends the queue
    CHECK(results.empty());
    all_pending(); // from here on
  });
  mine->when_complete(stream, note());
  mine->when_complete(stream_handle(9), [&](CUresult) { mine.reset(); });
  mine->when_complete(stream_handle(9), note());
  CompletionQueue& dying = *mine;
  CHECK(dying.poll() == 1);
  CHECK(inner == 1); // it has left the rest to this thread
  CHECK(results == Results(2, CUDA_ERROR_NOT_READY));
}

TEST_CASE_METHOD(QueueFixture, "the destructor of a queue never waits and still runs each callback") {
  all_pending();
  {
    CompletionQueue ending(context);
    ending.when_complete(stream_handle(1), note());
    ending.when_complete(stream_handle(2), note());
    ending.when_complete(stream_handle(2), [&](CUresult result) {
      results.push_back(result);
      CHECK(ending.try_when_complete(stream, note()) == CUDA_ERROR_ILLEGAL_STATE);
      const std::string why = refusal<IllegalState>([&] { ending.when_complete(stream, note()); });
      CHECK(why.find("being destroyed") != std::string::npos);
      CHECK(ending.poll() == 0);
    });
    ending.poll();
    all_complete();
    recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY); // for stream 1
  }
  CHECK(results == Results{CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_NOT_READY});
}

TEST_CASE_METHOD(QueueFixture, "a callback may destroy its queue") {
  std::optional<CompletionQueue> mine{context};
  mine->when_complete(stream, [&](CUresult result) {
    results.push_back(result);
    mine.reset();
    CHECK(results.size() == 1);
    all_pending(); // from here on
  });
  mine->when_complete(stream, note());
  CompletionQueue& dying = *mine;
  CHECK(dying.poll() == 1);
  CHECK(results == Results{CUDA_SUCCESS, CUDA_ERROR_NOT_READY});
  CHECK_FALSE(mine.has_value());
}

TEST_CASE_METHOD(QueueFixture,
                 "pending callbacks run once and in order in a forked child, whatever a poll was doing") {
#if defined(__SANITIZE_THREAD__)
  SKIP("in a child that was forked while other threads ran, the thread sanitizer may wait forever to free "
       "memory");
#endif
  static constexpr std::size_t most = 200'000;
  std::vector<std::atomic<int>> times(most);
  std::atomic<std::size_t> submitted{0};
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> last{0}; // the last callback of the stream that ran
  std::atomic<int> wrong{0};
  std::atomic<CUresult> expected{CUDA_SUCCESS};
  std::thread submitter([&] {
    for (std::size_t i = 0; i < most && !stop; ++i) {
      while (queue.pending() > 500 && !stop)
        std::this_thread::yield();
      queue.when_complete(stream, [&, i](CUresult result) {
        if (result != expected || (i != 0 && last.exchange(i) >= i)) ++wrong;
        ++times[i];
      });
      ++submitted;
      recording.calls();
    }
  });
  std::thread poller([&] {
    for (int i = 0; !stop; ++i) {
      if (i % 2 == 0) recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY);
      queue.poll();
      recording.calls();
    }
  });
  for (int round = 0; round < 40; ++round) {
    CHECK(in_child([&] {
            expected = CUDA_ERROR_NOT_INITIALIZED;
            if (round % 2 == 0) poll_until_empty();
            queue = CompletionQueue();
            std::size_t missing = 0;
            for (std::size_t i = 0; i < submitted; ++i) {
              if (times[i] > 1) return 1;
              missing += times[i] == 0;
            }
            if (missing > 1) return 2; // only the callback that was running may be missing
            return wrong == 0 ? 0 : 3;
          }) == 0);
  }
  stop = true;
  submitter.join();
  poller.join();
  CHECK(wrong == 0);
  poll_until_empty();
}

TEST_CASE_METHOD(QueueFixture, "a callback runs in order after 2^31 later submissions") {
  CompletionQueueState& state = *member(StateOf(), queue);
  // As if that many callbacks had been submitted and had run.
  const auto skip = [&](std::uint64_t submissions) {
    member(InboxOf(), state) += submissions << 32;
    member(ReturnedOf(), state) += static_cast<std::uint32_t>(submissions);
    member(SubmissionsOf(), state) += submissions;
  };
  skip(GENERATE(0U, 0xffff'fff0U)); // at the end of the 32 bits, too
  queue.when_complete(stream, note(1));
  all_pending();
  CHECK(queue.poll() == 0);
  skip(GENERATE(0x8000'0000U, 0xffff'ffffU));
  queue.when_complete(stream, note(2));
  CHECK(queue.pending() == 2);
  CHECK(in_child([&] {
          queue.poll();
          return queue.pending() == 0 && order() == std::vector{1, 2} ? 0 : 1;
        }) == 0);
  all_complete();
  CHECK(queue.poll() == 2);
  CHECK(order() == std::vector{1, 2});
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "a callback that ends its thread ends the process") {
  queue.when_complete(stream, [parent = getpid()](CUresult) {
    if (getpid() != parent) pthread_exit(nullptr);
  });
  CHECK(in_child([&] {
          std::signal(SIGABRT, SIG_DFL);
          std::set_terminate(std::abort);
          std::fclose(stderr);
          std::thread([&] { queue.poll(); }).join();
          return 0;
        }) == -SIGABRT);
}
