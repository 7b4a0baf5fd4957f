// SPDX-License-Identifier: MIT
#include <cuevent/completion_queue.hpp>

#include "allocations.hpp"
#include "overloads.hpp"
#include "recording_fixture.hpp"
#include "scheduling/completion_queue_state.hpp"
#include "task.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<CompletionQueue>);
static_assert(std::is_nothrow_move_constructible_v<CompletionQueue>);
static_assert(std::is_nothrow_move_assignable_v<CompletionQueue>);
static_assert(noexcept(std::declval<CompletionQueue&>().poll()));
static_assert(noexcept(std::declval<CompletionQueue&>().try_when_complete(nullptr, [](CUresult) {})));
static_assert(sizeof(CompletionQueue) == sizeof(void*));

namespace {

/// Results in the order in which the callbacks received them.
using Results = std::vector<CUresult>;

struct QueueFixture : RecordingFixture {
  CompletionQueue queue{context};
  Results results;

  auto note() {
    return [this](CUresult result) { results.push_back(result); };
  }
  /// Whether polls on this thread find the work complete.
  void all_pending() { recording.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY); }
  void all_complete() { recording.fail_nothing(); }
  std::ptrdiff_t queries() {
    const Names calls = recording.calls();
    return std::count(calls.begin(), calls.end(), "cuEventQuery");
  }
};

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

const Names one_query{"cuCtxGetId", "cuThreadExchangeStreamCaptureMode", "cuEventQuery",
                      "cuThreadExchangeStreamCaptureMode"};

int times_called = 0;
void count_call(CUresult) { ++times_called; }

/// Counts its instances and its calls.
struct Counted {
  explicit Counted(int& of) : alive(&of) { ++*alive; }
  Counted(Counted&& other) noexcept : alive(other.alive), moved_from(std::exchange(other.moved_from, true)) {
    ++*alive;
  }
  ~Counted() { --*alive; }
  void operator()(CUresult) const { ++calls; }
  int* alive;
  bool moved_from = false;
  static inline int calls = 0;
};

} // namespace

TEST_CASE_METHOD(QueueFixture, "a callback runs once, inside poll, when its work is complete", "[queue]") {
  all_pending();
  queue.when_complete(stream, note());
  CHECK(queue.pending() == 1);
  CHECK(queue.poll() == 0);
  CHECK(results.empty());
  all_complete();
  CHECK(queue.poll() == 1);
  CHECK(results == Results{CUDA_SUCCESS});
  CHECK(queue.pending() == 0);
  CHECK(queue.poll() == 0);
  CHECK(results.size() == 1);
}

TEST_CASE_METHOD(QueueFixture, "a submission makes four driver calls, and a poll makes one per stream",
                 "[queue]") {
  queue.when_complete(stream, note()); // creates the event
  queue.poll();
  recording.calls();
  queue.when_complete(stream, note());
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuCtxGetId", "cuStreamGetId", "cuEventRecord"});
  all_pending();
  queue.poll();
  CHECK(recording.calls() == one_query);
  all_complete();
  queue.poll();
  CHECK(recording.calls() == one_query);
  queue.poll(); // drops the stream, which has nothing pending
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(QueueFixture, "a submission to a lane makes two driver calls", "[queue][lane]") {
  const CompletionQueue::Lane lane = queue.lane(stream);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuCtxGetId", "cuStreamGetId"});
  CHECK(lane);
  CHECK(lane.stream() == stream);
  lane.when_complete(note()); // creates the event
  queue.poll();
  recording.calls();
  lane.when_complete(note());
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuEventRecord"});
  CHECK(queue.pending() == 1);
  const CompletionQueue moved = std::move(queue);
  CHECK(lane.try_when_complete(note()) == CUDA_SUCCESS);
  CHECK(moved.pending() == 2);
  queue = CompletionQueue(context);
  CHECK(results == Results(1, CUDA_SUCCESS)); // `moved` still has the others
}

TEST_CASE_METHOD(QueueFixture, "callbacks of a lane and of its stream run in one order", "[queue][lane]") {
  std::vector<int> order;
  CompletionQueue::Lane lane, copy;
  REQUIRE(queue.try_lane(lane, stream) == CUDA_SUCCESS);
  copy = lane;
  for (int i = 0; i < 30; ++i) {
    const auto note_order = [&order, i](CUresult) { order.push_back(i); };
    if (i % 3 == 0) queue.when_complete(stream, note_order);
    if (i % 3 == 1) lane.when_complete(note_order);
    if (i % 3 == 2) copy.when_complete(note_order);
  }
  all_pending();
  CHECK(queue.poll() == 0);
  CHECK(queries() == 1); // it is one stream
  all_complete();
  CHECK(queue.poll() == 30);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE_METHOD(QueueFixture, "a lane for a default stream means the one of the queue's context",
                 "[queue][lane]") {
  queue.reserve(1);
  CUstream const any = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
  recording.context_stack().push_back(context_handle(2));
  recording.calls();
  const CompletionQueue::Lane lane = queue.lane(context, any);
  lane.when_complete(note());
  std::size_t in_context = 0;
  for (const Call& call : recording.calls_with_contexts())
    if (call.name == "cuStreamIsCapturing" || call.name == "cuStreamGetId" || call.name == "cuEventRecord")
      in_context += call.current == context_handle(1) ? 1 : 100;
  // CU_STREAM_PER_THREAD is another stream on each thread, so its id is queried again.
  CHECK(in_context == (any == CU_STREAM_PER_THREAD ? 5 : 4));
  CHECK(recording.context_stack() == std::vector{context_handle(2)});
  recording.context_stack().clear();
  queue.poll();
  CHECK(results == Results{CUDA_SUCCESS});
  const Context other = Context::borrow(context_handle(2), driver);
  CHECK_THROWS_AS(queue.lane(other, any), ContextMismatch);
  CompletionQueue::Lane out;
  CHECK(queue.try_lane(out, other, any) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(queue.try_lane(out, Context(), any) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_FALSE(out);
}

TEST_CASE_METHOD(QueueFixture, "a lane whose stream handle names a new stream mixes up no results",
                 "[queue][lane]") {
  const CompletionQueue::Lane lane = queue.lane(stream);
  lane.when_complete(note());
  recording.reuse_streams(); // the stream is destroyed, and its handle comes back
  lane.when_complete(note());
  queue.when_complete(stream, note());
  recording.fail_next("cuEventQuery", CUDA_ERROR_INVALID_VALUE); // for the first callback of a stream
  CHECK(queue.poll() == 3);
  std::sort(results.begin(), results.end());
  CHECK(results == Results{CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE});
}

TEST_CASE_METHOD(QueueFixture, "a lane refuses what its queue refuses", "[queue][lane][capture]") {
  const CompletionQueue::Lane empty;
  CHECK_FALSE(empty);
  CHECK(empty.stream() == nullptr);
  CHECK(empty.try_when_complete(note()) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(empty.when_complete(note()), InvalidHandle);
  CompletionQueue none;
  CHECK_THROWS_AS(none.lane(stream), InvalidHandle);
  CompletionQueue::Lane lane = queue.lane(stream);
  CHECK(none.try_lane(lane, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(lane); // unchanged
  recording.calls();
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK_THROWS_AS(lane.when_complete(note()), StreamCaptureUnsupported);
  CHECK_THROWS_AS(queue.lane(stream), StreamCaptureUnsupported);
  CHECK(queue.try_lane(lane, stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(recording.calls() == Names(3, "cuStreamIsCapturing"));
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(lane.try_when_complete(note()) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK_THROWS_AS(queue.lane(stream), StreamCaptureInvalidated);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  recording.stream_context(context_handle(2));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(lane.when_complete(note()), ContextMismatch);
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "callbacks of a stream run in the order of submission", "[queue]") {
  std::vector<int> order[3];
  all_pending();
  for (int i = 0; i < 100; ++i) {
    const auto s = static_cast<std::size_t>(i * 7 % 3);
    queue.when_complete(stream_handle(64 * s), [&order, s, i](CUresult) { order[s].push_back(i); });
    if (i % 10 == 0) queue.poll(); // takes over the submissions so far
  }
  all_complete();
  CHECK(queue.poll() == 100);
  for (const std::vector<int>& one : order) {
    CHECK(one.size() >= 33);
    CHECK(std::is_sorted(one.begin(), one.end()));
  }
}

TEST_CASE_METHOD(QueueFixture, "a stream whose oldest work is pending delays no other stream", "[queue]") {
  std::vector<int> ran;
  all_pending();
  for (int i = 0; i < 6; ++i)
    queue.when_complete(stream_handle(i % 2 ? 1 : 2), [&ran, i](CUresult) { ran.push_back(i); });
  queue.poll();
  all_complete();
  // For stream 1, which the poll queries first.
  recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY);
  CHECK(queue.poll() == 3);
  CHECK(ran == std::vector{0, 2, 4});
  CHECK(queue.poll() == 3);
  CHECK(ran == std::vector{0, 2, 4, 1, 3, 5});
}

TEST_CASE_METHOD(QueueFixture, "a poll that finds nothing costs one query per stream", "[queue]") {
  constexpr std::size_t callbacks = 100'000, streams = 64;
  std::size_t ran = 0;
  all_pending();
  for (std::size_t i = 0; i < callbacks; ++i)
    queue.when_complete(stream_handle(0x100 * (i % streams)), [&ran](CUresult) { ++ran; });
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
  CHECK(ran == callbacks);
}

TEST_CASE_METHOD(QueueFixture, "a sticky fault reaches every pending callback once", "[queue]") {
  const CUresult fault = GENERATE(CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  for (int i = 0; i < 10; ++i)
    queue.when_complete(stream_handle(i % 2 ? 1 : 2), note());
  recording.calls();
  recording.fail_next("cuEventQuery", fault);
  CHECK(queue.poll() == 10);
  CHECK(results == Results(10, fault));
  CHECK(recording.calls() == one_query);
  CHECK(queue.poll() == 0);
}

TEST_CASE_METHOD(QueueFixture, "no event is queried or recorded after its context has ended", "[queue]") {
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

TEST_CASE_METHOD(QueueFixture, "any other error reaches only one callback", "[queue]") {
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream, note());
  recording.fail_next("cuEventQuery", CUDA_ERROR_INVALID_VALUE);
  CHECK(queue.poll() == 3);
  CHECK(results == Results{CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS, CUDA_SUCCESS});
}

TEST_CASE_METHOD(QueueFixture, "an exception of a callback goes to the error hook, and the others run",
                 "[queue]") {
  HookedErrors hooked;
  queue.when_complete(stream, [](CUresult) { throw InvalidValue("cuLaunchKernel"); });
  CHECK(queue.poll() == 1);
  CHECK(hooked.take() == CUDA_ERROR_INVALID_VALUE);
  int alive = 0;
  queue.when_complete(stream, [kept = Counted(alive)](CUresult) { throw std::runtime_error("no"); });
  queue.when_complete(stream, [](CUresult) { throw 42; });
  queue.when_complete(stream, note());
  CHECK(alive == 1);
  CHECK(queue.poll() == 3);
  CHECK(hooked.take() == CUDA_ERROR_UNKNOWN);
  CHECK(alive == 0);
  CHECK(results == Results{CUDA_SUCCESS});
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "callbacks may submit again, and a poll inside a callback runs nothing",
                 "[queue]") {
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

TEST_CASE_METHOD(QueueFixture, "a poll stops after its number of callbacks", "[queue][limit]") {
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

TEST_CASE_METHOD(QueueFixture, "a poll stops at its deadline", "[queue][limit]") {
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

TEST_CASE_METHOD(QueueFixture, "no stream starves while polls are limited", "[queue][limit]") {
  const std::uintptr_t apart =
      GENERATE(std::uintptr_t{1}, std::uintptr_t{64}); // with 64 the queue keeps all streams in one list
  constexpr std::size_t streams = 5;
  std::array<int, streams> ran{};
  struct Again { // always has completed work
    CompletionQueue& queue;
    CUstream stream;
    int& ran;
    void operator()(CUresult) const {
      ++ran;
      static_cast<void>(queue.try_when_complete(stream, *this)); // refused at the end of the queue
    }
  };
  for (std::size_t i = 0; i < streams; ++i)
    for (int each = 0; each < 3; ++each)
      queue.when_complete(stream_handle(i * apart), Again{queue, stream_handle(i * apart), ran[i]});
  for (int i = 0; i < 100; ++i)
    CHECK(queue.poll(PollLimit{1}) == 1);
  for (const int each : ran)
    CHECK(each == 100 / int(streams));
  queue = CompletionQueue(); // while the callbacks can still count
}

TEST_CASE_METHOD(QueueFixture, "a long callback delays only its own stream if other threads poll",
                 "[queue][threads]") {
  std::size_t ran = 0, pending = 0;
  Results before, of_others;
  queue.when_complete(stream, [&](CUresult) {
    std::thread([&] {
      ran = queue.poll() + queue.poll();
      pending = queue.pending();
    }).join();
    before = results;
  });
  queue.when_complete(stream, note());
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream_handle(std::size_t(7 + 64 * i)),
                        [&](CUresult result) { of_others.push_back(result); });
  CHECK(queue.poll() == 2);
  CHECK(ran == 3);
  CHECK(of_others == Results(3, CUDA_SUCCESS));
  CHECK(before.empty());
  CHECK(pending == 2); // the callback that was running, and the one behind it
  CHECK(results == Results{CUDA_SUCCESS});
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "a poll goes on correctly after another one has changed its list of streams",
                 "[queue][threads]") {
  std::size_t ran = 0;
  const auto stream_of_one_list = [](std::size_t i) { return stream_handle(7 + 64 * i); };
  queue.when_complete(stream_of_one_list(0), note());
  queue.when_complete(stream_of_one_list(1), [&](CUresult) {
    std::thread([&] {
      RecordingDriver of_this_thread;
      ran = queue.poll(); // the streams before and behind this one
    }).join();
  });
  queue.when_complete(stream_of_one_list(2), note());
  recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY); // of the first stream
  CHECK(queue.poll(PollLimit{10, Deadline(std::chrono::milliseconds(50))}) == 1);
  CHECK(ran == 2);
  CHECK(queries() == 2); // none of an event that is not pending any more
}

TEST_CASE_METHOD(QueueFixture,
                 "a poll runs no callback submitted during it, even if another poll takes it over",
                 "[queue][threads]") {
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
                 "[queue][threads]") {
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
                 "[queue][threads]") {
  HookedErrors hooked;
  std::size_t ran = 0;
  queue.when_complete(stream, [&](CUresult) {
    std::thread([&] { ran = queue.poll(); }).join();
    throw InvalidValue("cuLaunchKernel");
  });
  queue.when_complete(stream, note());
  queue.when_complete(stream_handle(9), note());
  CHECK(queue.poll() == 2);
  CHECK(ran == 1);
  CHECK(hooked.take() == CUDA_ERROR_INVALID_VALUE);
  CHECK(results == Results(2, CUDA_SUCCESS));
}

TEST_CASE_METHOD(QueueFixture, "a queue that ends while two threads run callbacks is finished by the last",
                 "[queue][threads]") {
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

TEST_CASE_METHOD(QueueFixture, "up to 32 callbacks run at the same time, and later ones are not lost",
                 "[queue][threads]") {
  constexpr std::size_t most = 32, streams = 40;
  std::atomic<std::size_t> running{0}, ran{0};
  std::atomic<bool> go_on{false};
  for (std::size_t i = 0; i < streams; ++i)
    queue.when_complete(stream_handle(i), [&](CUresult) {
      ++running;
      while (!go_on)
        std::this_thread::yield();
      ++ran;
    });
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < most; ++i)
    threads.emplace_back([&] {
      while (queue.poll() == 0)
        std::this_thread::yield();
    });
  while (running < most)
    std::this_thread::yield();
  CHECK(queue.poll() == 0);
  CHECK(queue.pending() == streams);
  go_on = true;
  for (std::thread& thread : threads)
    thread.join();
  while (queue.pending() != 0)
    queue.poll();
  CHECK(ran == streams);
}

TEST_CASE_METHOD(QueueFixture, "callbacks run in the capture mode of the polling thread", "[queue]") {
  std::vector<CUstreamCaptureMode> modes;
  for (int i = 0; i < 2; ++i)
    queue.when_complete(stream, [&](CUresult) { modes.push_back(recording.capture_mode()); });
  recording.capture_mode() = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  queue.poll();
  CHECK(modes == std::vector(2, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  recording.capture_mode() = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

TEST_CASE_METHOD(QueueFixture, "a capturing stream is refused before any other driver call",
                 "[queue][capture]") {
  queue.reserve(1);
  recording.calls();
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const std::string why = refusal<StreamCaptureUnsupported>([&] { queue.when_complete(stream, note()); });
  CHECK(why.find("after each launch") != std::string::npos);
  CHECK(queue.try_when_complete(stream, note()) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(recording.calls() == Names(2, "cuStreamIsCapturing"));
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK_THROWS_AS(queue.when_complete(stream, note()), StreamCaptureInvalidated);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing"});
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "a default stream means the one of the queue's context", "[queue]") {
  queue.reserve(1);
  CUstream const any = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
  recording.context_stack().push_back(context_handle(2));
  recording.calls();
  queue.when_complete(any, note());
  const std::vector<Call> calls = recording.calls_with_contexts();
  for (const std::string_view name : {"cuStreamIsCapturing", "cuStreamGetId", "cuEventRecord"})
    CHECK(std::find(calls.begin(), calls.end(), Call{name, context_handle(1)}) != calls.end());
  CHECK(recording.context_stack() == std::vector{context_handle(2)});
  recording.context_stack().clear();
  queue.poll();
  CHECK(results == Results{CUDA_SUCCESS});
}

TEST_CASE_METHOD(QueueFixture, "a refused callback is neither moved from nor run", "[queue]") {
  int alive = 0;
  {
    Counted callback(alive);
    queue.reserve(1);
    for (const std::string_view call : {"cuStreamIsCapturing", "cuStreamGetId", "cuEventRecord"}) {
      recording.fail_next(call, CUDA_ERROR_ILLEGAL_ADDRESS);
      CHECK_THROWS_AS(queue.when_complete(stream, std::move(callback)), IllegalAddress);
      recording.fail_next(call, CUDA_ERROR_ILLEGAL_ADDRESS);
      CHECK(queue.try_when_complete(stream, std::move(callback)) == CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    CHECK(alive == 1);
    CHECK_FALSE(callback.moved_from);
    CHECK(queue.pending() == 0);
    Counted::calls = 0;
    queue.when_complete(stream, std::move(callback));
    CHECK(callback.moved_from);
    CHECK(alive == 2);
    CHECK(queue.poll() == 1);
    CHECK(Counted::calls == 1);
    CHECK(alive == 1);
  }
  CHECK(alive == 0);
}

TEST_CASE_METHOD(QueueFixture, "a stream of another context is refused, and the error names the contexts",
                 "[queue]") {
  recording.stream_context(context_handle(2));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  const std::string why = refusal<ContextMismatch>([&] { queue.when_complete(stream, note()); });
  CHECK(why.find("different context than the queue") != std::string::npos);
}

TEST_CASE_METHOD(QueueFixture, "callbacks can be functions, lambdas and other callables", "[queue]") {
  times_called = 0;
  queue.when_complete(stream, count_call);
  queue.when_complete(stream, &count_call);
  const auto constant = [](CUresult) { ++times_called; };
  queue.when_complete(stream, constant);
  queue.when_complete(stream, [owned = std::make_unique<int>(3)](CUresult) { times_called += *owned; });
  const std::array<int*, 6> large{&times_called, nullptr, nullptr, nullptr, nullptr, &times_called};
  static_assert(sizeof large == CompletionQueue::callback_size);
  queue.when_complete(stream, [large](CUresult) { ++*large[0], ++*large[5]; });
  queue.when_complete(stream, [](auto&& result) { return times_called += int(result) + 1; });
  CHECK(queue.poll() == 6);
  CHECK(times_called == 1 + 1 + 1 + 3 + 2 + 1);
}

TEST_CASE_METHOD(QueueFixture, "the destructor of a queue never waits and still runs each callback",
                 "[queue]") {
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

TEST_CASE_METHOD(QueueFixture, "a callback may destroy its queue", "[queue]") {
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

TEST_CASE_METHOD(QueueFixture, "an empty queue refuses submissions, and its poll finds nothing", "[queue]") {
  CompletionQueue empty;
  CHECK_FALSE(empty);
  CHECK(empty.poll() == 0);
  CHECK(empty.pending() == 0);
  CHECK(empty.try_when_complete(stream, note()) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(empty.try_reserve(1) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(empty.when_complete(stream, note()), InvalidHandle);
  CHECK_THROWS_AS(CompletionQueue(Context()), InvalidContext);
  CHECK(CompletionQueue::try_create(empty, Context()) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_FALSE(empty);
}

TEST_CASE_METHOD(QueueFixture, "a queue moves with its callbacks", "[queue]") {
  queue.when_complete(stream, note());
  CompletionQueue moved(std::move(queue));
  CHECK(moved.pending() == 1);
  all_pending();
  CompletionQueue other(context);
  other.when_complete(stream, note());
  other = std::move(moved); // ends the previous queue
  CHECK(results == Results{CUDA_ERROR_NOT_READY});
  all_complete();
  CHECK(other.poll() == 1);
  CHECK(results == Results{CUDA_ERROR_NOT_READY, CUDA_SUCCESS});
}

TEST_CASE_METHOD(QueueFixture, "a default stream can be named only with the queue's own context",
                 "[queue][context]") {
  CUstream const any = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, stream_handle(1));
  const Context other = Context::borrow(context_handle(2), driver);
  const ContextGuard guard(other);
  int alive = 0;
  {
    Counted callback(alive);
    recording.calls();
    for (const Context& current : {other, Context::current(driver)}) {
      const std::string why =
          refusal<ContextMismatch>([&] { queue.when_complete(current, any, std::move(callback)); });
      CHECK(why.find("different context than the queue") != std::string::npos);
      CHECK(queue.try_when_complete(current, any, std::move(callback)) == CUDA_ERROR_INVALID_HANDLE);
    }
    CHECK_THROWS_AS(queue.when_complete(Context(), any, std::move(callback)), InvalidContext);
    CHECK(queue.try_when_complete(Context(), any, std::move(callback)) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK_FALSE(callback.moved_from);
    CHECK(recording.calls() == Names{"cuCtxGetCurrent", "cuCtxGetId"}); // from Context::current
  }
  queue.when_complete(context, any, note());
  CHECK(queue.try_when_complete(context, any, note()) == CUDA_SUCCESS);
  for (const Call& call : recording.calls_with_contexts())
    if (call.name == "cuEventRecord" && is_default_stream(any))
      CHECK(call.current == context.native_handle());
  CHECK(queue.poll() == 2);
  CHECK(results == Results(2, CUDA_SUCCESS));
  CompletionQueue empty;
  CHECK_THROWS_AS(empty.when_complete(context, any, note()), InvalidHandle);
  CHECK(empty.try_when_complete(context, any, note()) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_METHOD(QueueFixture, "a reservation serves submissions of any thread",
                 "[queue][reserve][threads]") {
  queue.reserve(64);
  const auto submit = [&](int count) {
    for (int i = 0; i < count; ++i)
      queue.when_complete(stream, note());
  };
  std::thread([&] { // threads that continue, with the events that they cache
    submit(1);
    std::thread([&] {
      submit(1);
      std::thread([&] { submit(62); }).join();
    }).join();
  })
      .join();
  CHECK(RecordingDriver::live_events() == events_before + 64);
  CHECK(queue.poll() == 64);
}

TEST_CASE_METHOD(QueueFixture, "the non-throwing overloads of queues return what the others throw",
                 "[queue][overloads]") {
  const auto check = [&](const std::function<void()>& throwing, const std::function<CUresult()>& trying) {
    return check_overloads(recording, throwing, trying);
  };
  const Context own = context, other = Context::borrow(context_handle(2), driver), none;
  CompletionQueue empty;
  queue.reserve(1'000); // more than are submitted, so that each submission makes the same calls
  for (const Context* each : {&own, &none})
    check([&] { CompletionQueue{*each}; },
          [&] {
            CompletionQueue out;
            return CompletionQueue::try_create(out, *each);
          });
  for (CompletionQueue* each : {&queue, &empty}) {
    for (const std::size_t count : {std::size_t{2}, std::size_t{1} << 40})
      check([&] { each->reserve(count); }, [&] { return each->try_reserve(count); });
    for (const CUstreamCaptureStatus status : {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                               CU_STREAM_CAPTURE_STATUS_INVALIDATED}) {
      recording.capture_status(status);
      for (CUstream any : {stream, CUstream(nullptr)}) {
        check([&] { each->when_complete(any, count_call); },
              [&] { return each->try_when_complete(any, count_call); });
        for (const Context* in : {&own, &other, &none})
          check([&] { each->when_complete(*in, any, count_call); },
                [&] { return each->try_when_complete(*in, any, count_call); });
      }
    }
    recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  }
}

TEST_CASE_METHOD(QueueFixture, "a reservation beyond the limit is refused before memory is allocated",
                 "[queue]") {
  CHECK(refusal<InvalidValue>([&] { queue.reserve(std::size_t{1} << 40); }).find("reserve fewer") !=
        std::string::npos);
  CHECK(queue.try_reserve(std::size_t{1} << 40) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(QueueFixture, "a reservation reports a lack of memory, and can be retried", "[queue]") {
  const std::size_t failed = fail_each_allocation(
      [&] {
        const CUresult result = queue.try_reserve(200);
        const SafeAllocations checking; // a CHECK can allocate
        CHECK(result == (FailingAllocation::happened() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS));
      },
      [] {});
  CHECK(failed >= 2); // the blocks of storage for callbacks
  CHECK(RecordingDriver::live_events() == events_before + 200);
}

TEST_CASE_METHOD(QueueFixture, "submissions within a reservation create no event", "[queue]") {
  queue.reserve(200);
  CHECK(RecordingDriver::live_events() == events_before + 200);
  recording.calls();
  for (int i = 0; i < 200; ++i)
    queue.when_complete(stream, note());
  const Names calls = recording.calls();
  CHECK(std::count(calls.begin(), calls.end(), "cuEventCreate") == 0);
  CHECK(queue.poll() == 200);
}

TEST_CASE_METHOD(QueueFixture, "a submission that fails leaves the reservation as it was", "[queue]") {
  constexpr std::size_t count = 64 + 128; // two blocks of storage
  queue.reserve(count);
  const auto submit = [&] { return queue.try_when_complete(stream, note()); };
  recording.fail_always("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  for (int i = 0; i < 10; ++i)
    CHECK(submit() == CUDA_ERROR_INVALID_HANDLE);
  recording.fail_nothing();
  std::size_t submitted = 0;
  {
    const FailingAllocation no_memory(0);
    while (submitted < count && submit() == CUDA_SUCCESS)
      ++submitted;
  }
  CHECK(submitted == count);
  CHECK(queue.poll() == count);
}

TEST_CASE_METHOD(QueueFixture, "a failing driver call never loses a callback", "[queue]") {
  queue.reserve(4);
  events_before += 4; // the pool's events, which live as long as the queue
  fail_each_call([&] {
    std::size_t submitted = 0, ran = 0;
    const auto poll = [&] {
      while (queue.pending() != 0)
        queue.poll();
      CHECK(ran == submitted);
    };
    try {
      for (CUstream each : {stream_handle(1), stream_handle(2), stream_handle(1), CUstream(nullptr)}) {
        queue.when_complete(each, [&](CUresult result) {
          ++ran;
          if (result != CUDA_SUCCESS) report_error(result, "callback");
        });
        ++submitted;
      }
    } catch (const DriverError&) {
      poll();
      throw;
    }
    poll();
  });
  events_before -= 4;
}

TEST_CASE_METHOD(QueueFixture, "nothing is submitted if no event can be created", "[queue]") {
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(queue.when_complete(stream, note()), OutOfMemory);
  recording.fail_next("cuEventCreate", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(queue.reserve(1), ContextIsDestroyed);
  CHECK(queue.pending() == 0);
  queue.when_complete(stream, note());
  CHECK(queue.poll() == 1);
}

namespace {

Task await_each(CompletionQueue& queue, std::vector<CUstream> streams, Results& results) {
  for (CUstream stream : streams)
    results.push_back(co_await queue.completion(stream));
}

/// A coroutine that starts immediately. This object destroys it, because it may not end by itself.
struct OwnedTask {
  struct promise_type {
    OwnedTask get_return_object() noexcept {
      return OwnedTask(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const { throw; }
  };

  explicit OwnedTask(std::coroutine_handle<promise_type> its) noexcept : handle(its) {}
  OwnedTask(OwnedTask&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  OwnedTask& operator=(OwnedTask&&) = delete;
  ~OwnedTask() {
    if (handle) handle.destroy();
  }

  std::coroutine_handle<promise_type> handle;
};

OwnedTask fail_after(CompletionQueue& queue, CUstream stream) {
  co_await queue.completion(stream);
  throw InvalidValue("cuLaunchKernel");
}

} // namespace

TEST_CASE_METHOD(QueueFixture, "a coroutine resumes inside poll with the result", "[queue][coroutine]") {
  await_each(queue, {stream, stream_handle(2), nullptr}, results);
  CHECK(results.empty());
  for (std::size_t n = 1; n <= 3; ++n) {
    CHECK(queue.pending() == 1);
    CHECK(queue.poll() == 1);
    CHECK(results == Results(n, CUDA_SUCCESS));
  }
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "a coroutine whose wait is refused resumes at once", "[queue][coroutine]") {
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  await_each(queue, {stream}, results);
  CHECK(results == Results{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED});
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  CompletionQueue empty;
  await_each(empty, {stream}, results);
  CHECK(results.back() == CUDA_ERROR_INVALID_HANDLE);
}

namespace {

Task await_named(CompletionQueue& queue, const Context& context, CUstream stream, Results& results) {
  results.push_back(co_await queue.completion(context, stream));
}

} // namespace

TEST_CASE_METHOD(QueueFixture, "a coroutine can name the context of a default stream", "[queue][coroutine]") {
  await_named(queue, context, nullptr, results);
  CHECK(queue.pending() == 1);
  CHECK(queue.poll() == 1);
  await_named(queue, Context::borrow(context_handle(2), driver), nullptr, results);
  await_named(queue, Context(), nullptr, results);
  CHECK(results == Results{CUDA_SUCCESS, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT});
}

TEST_CASE_METHOD(QueueFixture, "the destructor of a queue leaves no coroutine suspended",
                 "[queue][coroutine]") {
  all_pending();
  {
    CompletionQueue ending(context);
    await_each(ending, {stream, stream}, results);
  }
  CHECK(results == Results{CUDA_ERROR_NOT_READY, CUDA_ERROR_ILLEGAL_STATE});
}

TEST_CASE_METHOD(QueueFixture, "an exception of a coroutine goes to the error hook", "[queue][coroutine]") {
  HookedErrors hooked;
  const OwnedTask task = fail_after(queue, stream);
  CHECK(queue.poll() == 1);
  CHECK(hooked.take() == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(RecordingFixture,
                 "each callback runs once and in order while threads submit and poll concurrently",
                 "[queue][threads]") {
  static constexpr std::size_t submitters = 8, pollers = 8, streams = 5, each = 2000;
  CompletionQueue queue(context);
  struct Line { // one submitter's callbacks for one stream; written only in polls
    std::size_t ran = 0;
    bool in_order = true;
  };
  std::array<std::array<Line, streams>, submitters> lines;
  std::atomic<std::size_t> submitted{0}, ran{0}, returned{0};
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < submitters; ++t)
    running.emplace_back([&, t] {
      for (std::size_t i = 0; i < each; ++i) {
        Line& line = lines[t][i % streams];
        queue.when_complete(stream_handle(i % streams + 3),
                            [&line, &queue, &submitted, &ran, i](CUresult result) {
                              if (result != CUDA_SUCCESS || line.ran != i / streams) line.in_order = false;
                              ++line.ran;
                              ++ran;
                              if (i % 100 != 0) return;
                              ++submitted;
                              queue.when_complete(stream_handle(1), [&ran](CUresult) { ++ran; });
                            });
        ++submitted;
      }
    });
  for (std::size_t t = 0; t < pollers; ++t)
    running.emplace_back([&] {
      for (int i = 0; ran < submitters * (each + each / 100); ++i) {
        // For this thread's stream.
        if (i % 2 == 0) recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY);
        returned += queue.poll();
        recording.calls();
      }
    });
  for (std::thread& thread : running)
    thread.join();
  CHECK(submitted == ran);
  CHECK(returned == ran);
  CHECK(queue.pending() == 0);
  for (const auto& of_thread : lines)
    for (std::size_t s = 0; s < streams; ++s) {
      CHECK(of_thread[s].ran == (each + streams - 1 - s) / streams);
      CHECK(of_thread[s].in_order);
    }
}

namespace {

/// The exit code of a child, or the negative number of the signal that ended it.
int end_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

} // namespace

TEST_CASE_METHOD(QueueFixture,
                 "pending callbacks run once and in order in a forked child, whatever a poll was doing",
                 "[queue][fork]") {
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
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      expected = CUDA_ERROR_NOT_INITIALIZED;
      if (round % 2 == 0)
        while (queue.pending() != 0)
          queue.poll();
      queue = CompletionQueue();
      std::size_t missing = 0;
      for (std::size_t i = 0; i < submitted; ++i) {
        if (times[i] > 1) _exit(1);
        missing += times[i] == 0;
      }
      if (missing > 1) _exit(2); // only the callback that was running may be missing
      _exit(wrong == 0 ? 0 : 3);
    }
    CHECK(end_of(child) == 0);
  }
  stop = true;
  submitter.join();
  poller.join();
  CHECK(wrong == 0);
  while (queue.pending() != 0)
    queue.poll();
}

TEST_CASE_METHOD(QueueFixture, "all callbacks of a new queue run in a forked child, in order",
                 "[queue][fork]") {
  std::vector<int> ran;
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream, [&ran, i](CUresult) { ran.push_back(i); });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool pending = queue.pending() == 3;
    queue.poll();
    _exit(pending && queue.pending() == 0 && ran == std::vector{0, 1, 2} ? 0 : 1);
  }
  CHECK(end_of(child) == 0);
  CHECK(queue.poll() == 3); // and in the parent
}

TEST_CASE_METHOD(QueueFixture, "a callback runs in order after 2^31 later submissions", "[queue][fork]") {
  std::vector<int> ran;
  const auto submit = [&](int name) {
    queue.when_complete(stream, [&ran, name](CUresult) { ran.push_back(name); });
  };
  CompletionQueueState& state = *member(StateOf(), queue);
  // As if that many callbacks had been submitted and had run.
  const auto skip = [&](std::uint64_t submissions) {
    member(InboxOf(), state) += submissions << 32;
    member(ReturnedOf(), state) += static_cast<std::uint32_t>(submissions);
    member(SubmissionsOf(), state) += submissions;
  };
  skip(GENERATE(0U, 0xffff'fff0U)); // at the end of the 32 bits, too
  submit(1);
  all_pending();
  CHECK(queue.poll() == 0);
  skip(GENERATE(0x8000'0000U, 0xffff'ffffU));
  submit(2);
  CHECK(queue.pending() == 2);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    queue.poll();
    _exit(queue.pending() == 0 && ran == std::vector{1, 2} ? 0 : 1);
  }
  CHECK(end_of(child) == 0);
  all_complete();
  CHECK(queue.poll() == 2);
  CHECK(ran == std::vector{1, 2});
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "a callback may fork, and its poll continues in the child", "[queue][fork]") {
  pid_t child = -1;
  std::size_t nested = 1;
  queue.when_complete(stream, [&](CUresult) {
    child = fork();
    if (child == 0) {
      alarm(20);
      nested = queue.poll() + queue.poll();
    }
  });
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream_handle(std::size_t(1 + i)), note());
  const std::size_t count = queue.poll();
  if (child == 0) {
    while (queue.pending() != 0)
      queue.poll();
    const bool right = nested == 0 && count == 4 && results == Results(3, CUDA_ERROR_NOT_INITIALIZED);
    _exit(right ? 0 : 1);
  }
  CHECK(end_of(child) == 0);
  CHECK(count == 4);
  CHECK(results == Results(3, CUDA_SUCCESS));
}

TEST_CASE_METHOD(QueueFixture,
                 "a callback at the end of its queue may fork, and the end continues in the child",
                 "[queue][fork][end]") {
  const CUresult in_parent = GENERATE(CUDA_SUCCESS, CUDA_ERROR_NOT_READY); // of the queries
  recording.fail_always("cuEventQuery", in_parent);
  pid_t child = -1;
  queue.when_complete(stream_handle(0), [&](CUresult) {
    child = fork();
    if (child == 0) alarm(20);
  });
  for (std::size_t i = 1; i <= 3; ++i)
    queue.when_complete(stream_handle(i), note());
  queue = CompletionQueue();
  if (child == 0) _exit(results == Results(3, CUDA_ERROR_NOT_INITIALIZED) ? 0 : 1);
  CHECK(end_of(child) == 0);
  CHECK(results == Results(3, in_parent));
}

TEST_CASE_METHOD(QueueFixture, "a callback that ends its thread ends the process", "[queue][end]") {
  queue.when_complete(stream, [parent = getpid()](CUresult) {
    if (getpid() != parent) pthread_exit(nullptr);
  });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::signal(SIGABRT, SIG_DFL);
    std::set_terminate(std::abort);
    std::fclose(stderr);
    std::thread([&] { queue.poll(); }).join();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}
