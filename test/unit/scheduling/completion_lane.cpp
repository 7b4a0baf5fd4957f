// SPDX-License-Identifier: MIT
#include "queue_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <functional>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(QueueFixture, "a submission to a lane makes two driver calls") {
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

TEST_CASE_METHOD(QueueFixture, "callbacks of a lane and of its stream run in one order") {
  CompletionQueue::Lane lane, copy;
  REQUIRE(queue.try_lane(lane, stream) == CUDA_SUCCESS);
  copy = lane;
  for (int i = 0; i < 30; ++i) {
    if (i % 3 == 0) queue.when_complete(stream, note(i));
    if (i % 3 == 1) lane.when_complete(note(i));
    if (i % 3 == 2) copy.when_complete(note(i));
  }
  all_pending();
  CHECK(queue.poll() == 0);
  CHECK(queries() == 1); // it is one stream
  all_complete();
  CHECK(queue.poll() == 30);
  CHECK(std::is_sorted(ran.begin(), ran.end()));
}

TEST_CASE_METHOD(QueueFixture, "a lane for a default stream means the one of the queue's context") {
  queue.reserve(1);
  CUstream const any = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
  recording.context_stack().push_back(context_handle(2));
  recording.calls();
  const CompletionQueue::Lane lane = queue.lane({context, any});
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
  CHECK_THROWS_AS(queue.lane({other, any}), ContextMismatch);
  CompletionQueue::Lane out;
  CHECK(queue.try_lane(out, {other, any}) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(queue.try_lane(out, {Context(), any}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_FALSE(out);
}

TEST_CASE_METHOD(QueueFixture, "a lane whose stream handle names a new stream mixes up no results") {
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

TEST_CASE_METHOD(QueueFixture, "a lane refuses what its queue refuses") {
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

TEST_CASE_METHOD(QueueFixture, "a null callback is refused before any driver call") {
  using Function = void (*)(CUresult);
  const Function null = nullptr;
  const CompletionQueue::Lane lane = queue.lane(stream);
  recording.calls();
  CHECK_THAT(refusal<InvalidValue>([&] { queue.when_complete(stream, null); }), ContainsSubstring("null"));
  refusal<InvalidValue>([&] { lane.when_complete(null); });
  refusal<InvalidValue>([&] { queue.when_complete(stream, std::function<void(CUresult)>()); });
  CHECK(queue.try_when_complete(stream, null) == CUDA_ERROR_INVALID_VALUE);
  CHECK(lane.try_when_complete(null) == CUDA_ERROR_INVALID_VALUE);
  CHECK(lane.try_when_complete(std::function<void(CUresult)>()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(recording.calls().empty());
  CHECK(queue.pending() == 0);
}
