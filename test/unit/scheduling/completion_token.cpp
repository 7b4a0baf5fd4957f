// SPDX-License-Identifier: MIT
#include <cuevent/completion_token.hpp>

#include "allocations.hpp"
#include "forked_child.hpp"
#include "queue_fixture.hpp"
#include "task.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<CompletionToken>);
static_assert(std::is_nothrow_move_constructible_v<CompletionToken>);
static_assert(std::is_nothrow_move_assignable_v<CompletionToken>);
static_assert(noexcept(std::declval<const CompletionToken&>().cancel()));
static_assert(sizeof(CompletionToken) == 24);

namespace {

constexpr CUresult cancelled = CompletionToken::cancelled;

} // namespace

TEST_CASE_METHOD(QueueFixture,
                 "a cancelled callback runs once, in the next poll, without waiting for its work") {
  all_pending();
  CompletionToken token;
  queue.when_complete(stream, note(1));
  queue.when_complete(stream, note(2), &token);
  const bool polled_before = GENERATE(false, true); // if not, the callback is still in the inbox
  if (polled_before) queue.poll();
  CHECK(token);
  CHECK(token.cancel());
  CHECK_FALSE(token.cancel());
  CHECK(ran.empty());
  CHECK(queue.pending() == 2);
  CHECK(queue.poll() == 1);
  CHECK(ran == Ran{{2, cancelled}});
  CHECK(queue.pending() == 1);
  CHECK(queue.poll() == 0);
  all_complete();
  CHECK(queue.poll() == 1);
  CHECK(ran == Ran{{2, cancelled}, {1, CUDA_SUCCESS}});
  CHECK_FALSE(token.cancel());
}

TEST_CASE_METHOD(QueueFixture, "callbacks that are not cancelled stay in order") {
  all_pending();
  const int first = GENERATE(0, 1, 2, 3), second = GENERATE(0, 2, 3);
  std::array<CompletionToken, 4> tokens;
  for (int i = 0; i < 4; ++i)
    queue.when_complete(stream, note(i), &tokens[std::size_t(i)]);
  queue.poll();
  CHECK(tokens[std::size_t(first)].cancel());
  CHECK(tokens[std::size_t(second)].cancel() == (first != second));
  const std::size_t count = first == second ? 1 : 2;
  CHECK(queue.poll() == count);
  all_complete();
  CHECK(queue.poll() == 4 - count);
  REQUIRE(ran.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(ran[i].second == (i < count ? cancelled : CUDA_SUCCESS));
  for (std::size_t i = count + 1; i < 4; ++i)
    CHECK(ran[i - 1].first < ran[i].first);
}

TEST_CASE_METHOD(QueueFixture, "a token of a callback that has run cancels nothing") {
  CompletionToken none, token, later;
  CHECK_FALSE(none);
  CHECK_FALSE(none.cancel());
  queue.when_complete(stream, note(1), &token);
  CHECK(queue.poll() == 1);
  CHECK_FALSE(token.cancel());
  all_pending();
  queue.when_complete(stream, note(2), &later); // with the same event and memory
  CHECK_FALSE(token.cancel());
  CHECK(queue.poll() == 0);
  CHECK(later.cancel());
  CHECK(queue.poll() == 1);
  CHECK(ran == Ran{{1, CUDA_SUCCESS}, {2, cancelled}});
}

TEST_CASE_METHOD(QueueFixture, "a token may outlive its queue") {
  all_pending();
  std::array<CompletionToken, 3> tokens;
  {
    CompletionQueue ending(context);
    for (int i = 0; i < 3; ++i)
      ending.when_complete(stream, note(i), &tokens[std::size_t(i)]);
    ending.poll();
    CHECK(tokens[1].cancel());
  }
  CHECK(RecordingDriver::live_events() == events_before); // a token keeps no event
  CHECK(ran == Ran{{1, cancelled}, {0, CUDA_ERROR_NOT_READY}, {2, CUDA_ERROR_NOT_READY}});
  for (const CompletionToken& token : tokens)
    CHECK_FALSE(token.cancel());
  tokens[0] = std::move(tokens[2]);
  CHECK(tokens[0]);
  CHECK_FALSE(tokens[2]); // NOLINT(bugprone-use-after-move)
}

TEST_CASE_METHOD(QueueFixture, "a refused submission leaves its token unchanged") {
  CompletionToken token;
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(queue.try_when_complete(stream, note(1), &token) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_FALSE(token);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  all_pending();
  queue.when_complete(stream, note(2), &token);
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(queue.when_complete({context, stream}, note(3), &token), InvalidHandle);
  CHECK(token.cancel()); // still the second
  CHECK(queue.poll() == 1);
  CHECK(ran == Ran{{2, cancelled}});
}

TEST_CASE_METHOD(QueueFixture, "callbacks of lanes and of named default streams can be cancelled") {
  all_pending();
  const CompletionQueue::Lane lane = queue.lane(stream);
  CompletionToken of_lane, tried, named, tried_named;
  lane.when_complete(note(1), &of_lane);
  CHECK(lane.try_when_complete(note(2), &tried) == CUDA_SUCCESS);
  queue.when_complete({context, nullptr}, note(3), &named);
  CHECK(queue.try_when_complete({context, nullptr}, note(4), &tried_named) == CUDA_SUCCESS);
  for (const CompletionToken* token : {&of_lane, &tried, &named, &tried_named}) {
    CHECK(token->cancel());
    CHECK(queue.poll() == 1);
  }
  CHECK(ran == Ran{{1, cancelled}, {2, cancelled}, {3, cancelled}, {4, cancelled}});
}

namespace {

template <class Awaitable>
Task await_one(Awaitable awaitable, std::vector<CUresult>& results) {
  results.push_back(co_await awaitable);
}

/// The token is gone before the second wait.
Task await_with_own_token(CompletionQueue& queue, CUstream stream, bool& cancelled_first,
                          std::vector<CUresult>& results) {
  {
    CompletionToken own;
    queue.when_complete(stream, [&](CUresult) { cancelled_first = own.cancel(); });
    results.push_back(co_await queue.completion(stream, &own));
  }
  results.push_back(co_await queue.completion(stream));
}

} // namespace

TEST_CASE_METHOD(QueueFixture, "a token cancels the wait of a coroutine") {
  all_pending();
  CompletionToken of_queue, named, of_lane;
  await_one(queue.completion(stream, &of_queue), results);
  await_one(queue.completion({context, nullptr}, &named), results);
  await_one(queue.lane(stream).completion(&of_lane), results);
  CHECK(queue.poll() == 0);
  for (const CompletionToken* token : {&of_queue, &named, &of_lane}) {
    CHECK(token->cancel());
    CHECK(results.empty());
    CHECK(queue.poll() == 1);
    CHECK(results == std::vector{cancelled});
    results.clear();
    CHECK_FALSE(token->cancel());
  }
}

TEST_CASE_METHOD(QueueFixture, "the token of a wait may belong to the coroutine") {
  bool cancelled_first = false;
  await_with_own_token(queue, stream, cancelled_first, results);
  CHECK(queue.poll() == 1); // the cancelled wait runs in the next poll
  CHECK(cancelled_first);
  CHECK(queue.poll() == 1);
  CHECK(results == std::vector{cancelled});
  CHECK(queue.poll() == 1);
  CHECK(results == std::vector{cancelled, CUDA_SUCCESS});
}

TEST_CASE_METHOD(QueueFixture, "a refused wait leaves its token unchanged") {
  all_pending();
  CompletionToken token, unused;
  queue.when_complete(stream, note(1), &token);
  await_one(queue.completion({Context(), nullptr}, &token), results);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  await_one(queue.completion(stream, &token), results);
  await_one(queue.completion(stream, &unused), results);
  CHECK(results == std::vector{CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                               CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED});
  CHECK_FALSE(unused);
  CHECK(token.cancel());
  CHECK(queue.poll() == 1);
  CHECK(ran == Ran{{1, cancelled}});
}

TEST_CASE_METHOD(QueueFixture, "cancelled callbacks count towards the limit of a poll") {
  all_pending();
  std::array<CompletionToken, 5> tokens;
  for (int i = 0; i < 5; ++i)
    queue.when_complete(stream_handle(std::size_t(i)), note(i), &tokens[std::size_t(i)]);
  for (const CompletionToken& token : tokens)
    CHECK(token.cancel());
  CHECK(queue.poll(PollLimit{2}) == 2);
  CHECK(queue.poll(PollLimit{2}) == 2);
  CHECK(queue.poll(PollLimit{2}) == 1);
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "cancelled callbacks and streams take turns while polls are limited") {
  struct Again { // cancels its next submission
    CompletionQueue& queue;
    CUstream stream;
    std::array<int, 3>& ran;
    std::size_t number;
    void operator()(CUresult result) const {
      ++ran[number];
      CompletionToken token;
      if (queue.try_when_complete(stream, *this, &token) == CUDA_SUCCESS && result == cancelled)
        token.cancel(); // refused at the end of the queue
    }
  };
  std::array<int, 3> counts{}; // two streams of cancellations, and one without
  std::array<CompletionToken, 2> tokens;
  for (std::size_t i = 0; i < 3; ++i)
    queue.when_complete(stream_handle(i), Again{queue, stream_handle(i), counts, i},
                        i < 2 ? &tokens[i] : nullptr);
  for (const CompletionToken& token : tokens)
    CHECK(token.cancel());
  for (int i = 0; i < 100; ++i)
    CHECK(queue.poll(PollLimit{1}) == 1);
  CHECK(counts == std::array<int, 3>{25, 25, 50});
  queue = CompletionQueue(); // while the callbacks can still count
}

TEST_CASE_METHOD(QueueFixture, "a token allocates nothing") {
  queue.reserve(2);
  const auto allocations_of = [&](CompletionToken* token) {
    recording.calls(); // the recording of calls allocates each time
    const std::size_t before = allocations_of_this_thread();
    queue.when_complete(stream, note(1), token);
    return allocations_of_this_thread() - before;
  };
  CompletionToken token;
  CHECK(allocations_of(nullptr) == allocations_of(&token));
  const std::size_t before = allocations_of_this_thread();
  const bool won = token.cancel();
  const std::size_t after = allocations_of_this_thread();
  CHECK(after == before);
  CHECK(won);
}

TEST_CASE_METHOD(QueueFixture, "cancelled callbacks give their places back") {
  all_pending();
  queue.reserve(4);
  queue.when_complete(stream_handle(9), note(0)); // stays
  const long events = RecordingDriver::live_events();
  for (int round = 0; round < 100; ++round) {
    std::array<CompletionToken, 3> tokens;
    for (CompletionToken& token : tokens)
      if (queue.try_when_complete(stream, note(round), &token) != CUDA_SUCCESS) FAIL();
    for (const CompletionToken& token : tokens)
      if (!token.cancel()) FAIL();
    if (queue.poll() != 3) FAIL();
    recording.calls();
  }
  CHECK(RecordingDriver::live_events() == events);
}

TEST_CASE_METHOD(QueueFixture, "a callback may cancel others, and destroy its own token") {
  auto own = std::make_unique<CompletionToken>();
  CompletionToken other;
  bool own_cancelled = true, other_cancelled = false;
  CompletionToken* const assigned = own.get();
  queue.when_complete(
      stream,
      [&](CUresult result) {
        own_cancelled = own->cancel();
        own.reset();
        other_cancelled = other.cancel();
        ran.emplace_back(1, result);
      },
      assigned);
  queue.when_complete(stream, note(2), &other);
  CHECK(queue.poll() == 1); // the second one is cancelled, and runs in the next poll
  CHECK(queue.poll() == 1);
  CHECK_FALSE(own_cancelled);
  CHECK(other_cancelled);
  CHECK(ran == Ran{{1, CUDA_SUCCESS}, {2, cancelled}});
}

TEST_CASE_METHOD(QueueFixture, "a cancelled callback does not run during another callback of its stream",
                 "[threads]") {
  CompletionToken token;
  std::size_t meanwhile = 1;
  queue.when_complete(stream, [&](CUresult result) {
    CHECK(token.cancel());
    std::thread([&] { meanwhile = queue.poll(); }).join();
    ran.emplace_back(1, result);
  });
  queue.when_complete(stream, note(2), &token);
  queue.poll();
  queue.poll();
  CHECK(meanwhile == 0);
  CHECK(ran == Ran{{1, CUDA_SUCCESS}, {2, cancelled}});
}

TEST_CASE_METHOD(QueueFixture, "a fault does not reach a cancelled callback") {
  CompletionToken token;
  queue.when_complete(stream, note(1));
  queue.when_complete(stream, note(2), &token);
  CHECK(token.cancel());
  recording.fail_next("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(queue.poll() == 2);
  CHECK(ran == Ran{{2, cancelled}, {1, CUDA_ERROR_ILLEGAL_ADDRESS}});
}

TEST_CASE_METHOD(QueueFixture, "a callback that was cancelled before a fork runs once in the child") {
  all_pending();
  std::array<CompletionToken, 3> tokens;
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream, note(i), &tokens[std::size_t(i)]);
  queue.poll();
  CHECK(tokens[1].cancel());
  CHECK(in_child([&] {
          const bool wins = tokens[2].cancel() && !tokens[1].cancel();
          poll_until_empty();
          const bool right = ran.size() == 3 && ran[2] == std::pair(0, CUDA_ERROR_NOT_INITIALIZED) &&
                             ran[0].second == cancelled && ran[1].second == cancelled;
          return wins && right ? 0 : 1;
        }) == 0);
  CHECK(queue.poll() == 1);
  CHECK(ran == Ran{{1, cancelled}});
}
