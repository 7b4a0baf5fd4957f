// SPDX-License-Identifier: MIT
#include "allocations.hpp"
#include "overloads.hpp"
#include "queue_fixture.hpp"

#include <cuevent/error.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<CompletionQueue>);
static_assert(std::is_nothrow_move_constructible_v<CompletionQueue>);
static_assert(std::is_nothrow_move_assignable_v<CompletionQueue>);
static_assert(noexcept(std::declval<CompletionQueue&>().poll()));
static_assert(noexcept(std::declval<CompletionQueue&>().try_when_complete(nullptr, [](CUresult) {})));
static_assert(sizeof(CompletionQueue) == sizeof(void*));

namespace {

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

TEST_CASE_METHOD(QueueFixture, "a callback runs once, inside poll, when its work is complete") {
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

TEST_CASE_METHOD(QueueFixture, "a submission makes four driver calls, and a poll makes one per stream") {
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

TEST_CASE_METHOD(QueueFixture, "a sticky fault reaches every pending callback once") {
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

TEST_CASE_METHOD(QueueFixture, "any other error reaches only one callback") {
  for (int i = 0; i < 3; ++i)
    queue.when_complete(stream, note());
  recording.fail_next("cuEventQuery", CUDA_ERROR_INVALID_VALUE);
  CHECK(queue.poll() == 3);
  CHECK(results == Results{CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS, CUDA_SUCCESS});
}

TEST_CASE_METHOD(QueueFixture, "an exception of a callback goes to the error hook, and the others run") {
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

TEST_CASE_METHOD(QueueFixture, "callbacks run in the capture mode of the polling thread") {
  std::vector<CUstreamCaptureMode> modes;
  for (int i = 0; i < 2; ++i)
    queue.when_complete(stream, [&](CUresult) { modes.push_back(recording.capture_mode()); });
  recording.capture_mode() = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  queue.poll();
  CHECK(modes == std::vector(2, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  recording.capture_mode() = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

TEST_CASE_METHOD(QueueFixture, "a capturing stream is refused before any other driver call") {
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

TEST_CASE_METHOD(QueueFixture, "a default stream means the one of the queue's context") {
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

TEST_CASE_METHOD(QueueFixture, "a refused callback is neither moved from nor run") {
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

TEST_CASE_METHOD(QueueFixture, "a stream of another context is refused, and the error names the contexts") {
  recording.stream_context(context_handle(2));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  const std::string why = refusal<ContextMismatch>([&] { queue.when_complete(stream, note()); });
  CHECK(why.find("different context than the queue") != std::string::npos);
}

TEST_CASE_METHOD(QueueFixture, "callbacks can be functions, lambdas and other callables") {
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

TEST_CASE_METHOD(QueueFixture, "an empty queue refuses submissions, and its poll finds nothing") {
  CompletionQueue empty;
  CHECK_FALSE(empty);
  CHECK(empty.poll() == 0);
  CHECK(empty.pending() == 0);
  CHECK_THROWS_AS(empty.when_complete(stream, note()), InvalidHandle);
  CHECK_THROWS_AS(CompletionQueue(Context()), InvalidContext);
  CHECK(CompletionQueue::try_create(empty, Context()) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_FALSE(empty);
}

TEST_CASE_METHOD(QueueFixture, "a queue moves with its callbacks") {
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

TEST_CASE_METHOD(QueueFixture, "a default stream can be named only with the queue's own context") {
  CUstream const any = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, stream_handle(1));
  const Context other = Context::borrow(context_handle(2), driver);
  const ContextGuard guard(other);
  int alive = 0;
  {
    Counted callback(alive);
    recording.calls();
    for (const Context& current : {other, Context::current(driver)}) {
      const std::string why = refusal<ContextMismatch>([&] {
        queue.when_complete({current, any}, std::move(callback));
      });
      CHECK(why.find("different context than the queue") != std::string::npos);
      CHECK(queue.try_when_complete({current, any}, std::move(callback)) == CUDA_ERROR_INVALID_HANDLE);
    }
    CHECK_THROWS_AS(queue.when_complete({Context(), any}, std::move(callback)), InvalidContext);
    CHECK(queue.try_when_complete({Context(), any}, std::move(callback)) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK_FALSE(callback.moved_from);
    CHECK(recording.calls() == Names{"cuCtxGetCurrent", "cuCtxGetId"}); // from Context::current
  }
  queue.when_complete({context, any}, note());
  CHECK(queue.try_when_complete({context, any}, note()) == CUDA_SUCCESS);
  for (const Call& call : recording.calls_with_contexts())
    if (call.name == "cuEventRecord" && is_default_stream(any))
      CHECK(call.current == context.native_handle());
  CHECK(queue.poll() == 2);
  CHECK(results == Results(2, CUDA_SUCCESS));
  CompletionQueue empty;
  CHECK_THROWS_AS(empty.when_complete({context, any}, note()), InvalidHandle);
  CHECK(empty.try_when_complete({context, any}, note()) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_METHOD(QueueFixture, "a reservation serves submissions of any thread", "[threads]") {
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

TEST_CASE_METHOD(QueueFixture, "the non-throwing overloads of queues return what the others throw") {
  const Context own = context, other = Context::borrow(context_handle(2), driver), none;
  CompletionQueue empty;
  queue.reserve(1'000); // more than are submitted, so that each submission makes the same calls
  for (const Context* each : {&own, &none})
    CREATES(CompletionQueue, *each);
  for (CompletionQueue* each : {&queue, &empty}) {
    for (const std::size_t count : {std::size_t{2}, std::size_t{1} << 40})
      BOTH(*each, reserve, count);
    for (const CUstreamCaptureStatus status : {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                               CU_STREAM_CAPTURE_STATUS_INVALIDATED}) {
      recording.capture_status(status);
      for (CUstream any : {stream, CUstream(nullptr)}) {
        BOTH(*each, when_complete, any, count_call);
        for (const Context* in : {&own, &other, &none})
          BOTH(*each, when_complete, {*in, any}, count_call);
      }
    }
    recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  }
}

TEST_CASE_METHOD(QueueFixture, "a reservation beyond the limit is refused before memory is allocated") {
  CHECK(refusal<InvalidValue>([&] { queue.reserve(std::size_t{1} << 40); }).find("reserve fewer") !=
        std::string::npos);
  CHECK(queue.try_reserve(std::size_t{1} << 40) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(QueueFixture, "a reservation reports a lack of memory, and can be retried") {
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

TEST_CASE_METHOD(QueueFixture, "submissions within a reservation create no event") {
  queue.reserve(200);
  CHECK(RecordingDriver::live_events() == events_before + 200);
  recording.calls();
  for (int i = 0; i < 200; ++i)
    queue.when_complete(stream, note());
  const Names calls = recording.calls();
  CHECK(std::count(calls.begin(), calls.end(), "cuEventCreate") == 0);
  CHECK(queue.poll() == 200);
}

TEST_CASE_METHOD(QueueFixture, "a submission that fails leaves the reservation as it was") {
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

TEST_CASE_METHOD(QueueFixture, "a failing driver call never loses a callback") {
  const HookedErrors hooked;
  queue.reserve(4);
  const auto submit_and_poll = [&] {
    std::size_t submitted = 0, seen = 0;
    for (CUstream each : {stream_handle(1), stream_handle(2), stream_handle(1), CUstream(nullptr)})
      if (queue.try_when_complete(each, [&](CUresult) { ++seen; }) == CUDA_SUCCESS) ++submitted;
    poll_until_empty();
    CHECK(seen == submitted);
    return recording.calls().size();
  };
  recording.calls();
  const std::size_t calls = submit_and_poll();
  for (std::size_t k = 1; k <= calls; ++k)
    for (const CUresult result : {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_ILLEGAL_ADDRESS}) {
      CAPTURE(k, result);
      recording.fail_call(int(k), result);
      submit_and_poll();
      recording.fail_nothing();
      recording.context_stack().clear(); // a pop may have failed
      recording.capture_mode() = CU_STREAM_CAPTURE_MODE_GLOBAL;
    }
}

TEST_CASE_METHOD(QueueFixture, "nothing is submitted if no event can be created") {
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(queue.when_complete(stream, note()), OutOfMemory);
  recording.fail_next("cuEventCreate", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(queue.reserve(1), ContextIsDestroyed);
  CHECK(queue.pending() == 0);
  queue.when_complete(stream, note());
  CHECK(queue.poll() == 1);
}
