// SPDX-License-Identifier: MIT
#include "queue_fixture.hpp"
#include "task.hpp"

using namespace cuevent;
using namespace test;

namespace {

Task await_each(CompletionQueue& queue, std::vector<CUstream> streams, Results& results) {
  for (CUstream stream : streams)
    results.push_back(co_await queue.completion(stream));
}

Task await_named(CompletionQueue& queue, const Context& context, CUstream stream, Results& results) {
  results.push_back(co_await queue.completion({context, stream}));
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

TEST_CASE_METHOD(QueueFixture, "a coroutine resumes inside poll with the result") {
  await_each(queue, {stream, stream_handle(2), nullptr}, results);
  CHECK(results.empty());
  for (std::size_t n = 1; n <= 3; ++n) {
    CHECK(queue.pending() == 1);
    CHECK(queue.poll() == 1);
    CHECK(results == Results(n, CUDA_SUCCESS));
  }
  CHECK(queue.pending() == 0);
}

TEST_CASE_METHOD(QueueFixture, "a coroutine whose wait is refused resumes at once") {
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  await_each(queue, {stream}, results);
  CHECK(results == Results{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED});
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  CompletionQueue empty;
  await_each(empty, {stream}, results);
  CHECK(results.back() == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_METHOD(QueueFixture, "a coroutine can name the context of a default stream") {
  await_named(queue, context, nullptr, results);
  CHECK(queue.pending() == 1);
  CHECK(queue.poll() == 1);
  await_named(queue, Context::borrow(context_handle(2), driver), nullptr, results);
  await_named(queue, Context(), nullptr, results);
  CHECK(results == Results{CUDA_SUCCESS, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT});
}

TEST_CASE_METHOD(QueueFixture, "the destructor of a queue leaves no coroutine suspended") {
  all_pending();
  {
    CompletionQueue ending(context);
    await_each(ending, {stream, stream}, results);
  }
  CHECK(results == Results{CUDA_ERROR_NOT_READY, CUDA_ERROR_ILLEGAL_STATE});
}

TEST_CASE_METHOD(QueueFixture, "an exception of a coroutine goes to the error hook") {
  HookedErrors hooked;
  const OwnedTask task = fail_after(queue, stream);
  CHECK(queue.poll() == 1);
  CHECK(hooked.take() == CUDA_ERROR_INVALID_VALUE);
}
