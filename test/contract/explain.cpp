// SPDX-License-Identifier: MIT
#include <cuevent/explain.hpp>

#include <cuevent/capture.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include "stream.hpp"
#include "thrown.hpp"

#include <string>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(StreamFixture, "a refused record or wait is explained as its exception explains it") {
  DriverEvent event(context), empty;

  const std::string none = explain_record(empty.try_record(stream), empty, stream);
  CHECK(none == thrown([&] { empty.record(stream); }));
  CHECK_THAT(none, ContainsSubstring("the event is empty"));
  CHECK(explain_wait(empty.try_wait(stream), empty, stream) == thrown([&] { empty.wait(stream); }));
  CHECK(explain_query(empty.try_query(), empty) == thrown([&] { static_cast<void>(empty.query()); }));

  const std::string outside =
      explain_record(event.try_record(stream, RecordFlags::external), event, stream, RecordFlags::external);
  CHECK(outside == thrown([&] { event.record(stream, RecordFlags::external); }));
  CHECK_THAT(outside, ContainsSubstring("not being captured"));

  const Context gone;
  CHECK(explain_record(event.try_record({gone, stream}), event, {gone, stream}) == thrown([&] {
          event.record({gone, stream});
        }));
  CHECK(explain_wait(event.try_wait({gone, stream}), event, {gone, stream}) == thrown([&] {
          event.wait({gone, stream});
        }));
}

TEST_CASE_METHOD(Fixture, "a record on a stream of another context names both contexts") {
  const Context second = Context::create(0, driver);
  const Stream there(second);
  DriverEvent event(context);
  const std::string text = explain_record(event.try_record(there), event, there);
  CHECK(text == thrown([&] { event.record(there); }));
  CHECK_THAT(text, ContainsSubstring("the event belongs to context") && ContainsSubstring("the stream to"));
}

TEST_CASE_METHOD(StreamFixture, "causes that share one result are told apart") {
  DriverEvent recorded(context, EventFlags::timing), never(context, EventFlags::timing), untimed(context);
  recorded.record(stream);
  untimed.record(stream);
  recorded.synchronize();
  untimed.synchronize();
  DriverEvent::Milliseconds time{};
  for (const DriverEvent* end : {&never, &untimed}) {
    const CUresult result = recorded.try_elapsed_time(time, *end);
    CHECK(result == CUDA_ERROR_INVALID_HANDLE);
    CHECK(explain_elapsed_time(result, recorded, *end) == thrown([&] { recorded.elapsed_time(*end); }));
  }
  CHECK_THAT(explain_elapsed_time(CUDA_ERROR_INVALID_HANDLE, recorded, never),
             ContainsSubstring("never recorded"));

  EventPool pool(context);
  const PooledEvent lease = pool.acquire();
  CHECK(explain_query(lease.try_query(), lease) == thrown([&] { static_cast<void>(lease.query()); }));
}

TEST_CASE_METHOD(Fixture, "a result that no longer fits the arguments is still explained") {
  const DriverEvent empty;
  CHECK(explain_query(CUDA_ERROR_ILLEGAL_ADDRESS, empty) ==
        explain(CUDA_ERROR_ILLEGAL_ADDRESS, "cuEventQuery"));
  CHECK_THAT(explain_query(CUDA_SUCCESS, empty), ContainsSubstring("CUDA_SUCCESS"));
  CHECK(explain_create(CUDA_ERROR_INVALID_VALUE, context, EventFlags::timing | EventFlags::interprocess) ==
        thrown([&] {
          DriverEvent{context, EventFlags::timing | EventFlags::interprocess};
        }));
}

TEST_CASE("a failed load says what to install") {
  Driver none;
  const char* const library = "/nowhere/libcuda.so.1";
  const std::string text = explain_load(Driver::try_load(none, library), library);
  CHECK(text == thrown([&] { Driver{std::string(library)}; }));
  CHECK_THAT(text, ContainsSubstring(library) && ContainsSubstring("install the NVIDIA driver, or set"));
  const GetProcAddress null = nullptr;
  CHECK(explain_load(Driver::try_load(none, null), null) == thrown([&] { Driver{null}; }));
}

TEST_CASE_METHOD(StreamFixture, "refused pools, queues, fences and semaphores are explained") {
  const Context second = Context::create(0, driver);
  const Stream there(second);
  EventPool pool(context);
  EventPools pools(driver);
  CompletionQueue queue(context);
  TimelineFence fence(context, stream);
  TimelineSemaphore semaphore(context, 7);
  PooledEvent lease;
  CompletionLane lane;
  std::uint64_t ticket = 0;
  const auto ignore = [](CUresult) {};
  const Context gone;

  CHECK(explain_wait_stream(pool.try_wait_stream(stream, there), pool, stream, there) ==
        thrown([&] { pool.wait_stream(stream, there); }));
  CHECK(explain_wait_stream(pool.try_wait_stream(stream, {second, there}), pool, stream, {second, there}) ==
        thrown([&] {
          pool.wait_stream(stream, {second, there});
        }));
  CHECK(explain_acquire(pools.try_acquire(lease, {second, stream}), pools, {second, stream}) == thrown([&] {
          static_cast<void>(pools.acquire({second, stream}));
        }));
  CHECK(explain_when_complete(queue.try_when_complete(there, ignore), queue, there) ==
        thrown([&] { queue.when_complete(there, ignore); }));
  CHECK(explain_when_complete(queue.try_lane(lane, {gone, stream}), queue, {gone, stream}) == thrown([&] {
          static_cast<void>(queue.lane({gone, stream}));
        }));
  CHECK(explain_wait(fence.try_wait(there, 9), fence, 9) == thrown([&] { fence.wait(there, 9); }));
  CHECK(explain_signal(semaphore.try_signal(stream, 3), semaphore, 3) ==
        thrown([&] { semaphore.signal(stream, 3); }));
  CHECK(explain_wait(semaphore.try_wait(stream, 8), semaphore, 8) ==
        thrown([&] { semaphore.wait(stream, 8); }));

  StreamCapture capture(context, stream);
  CHECK(explain_signal(fence.try_signal(ticket), fence) ==
        thrown([&] { static_cast<void>(fence.signal()); }));
  CHECK(explain_signal(semaphore.try_signal(stream, 8), semaphore, 8) ==
        thrown([&] { semaphore.signal(stream, 8); }));
  CHECK(explain_when_complete(queue.try_when_complete(stream, ignore), queue, stream) ==
        thrown([&] { queue.when_complete(stream, ignore); }));
}

TEST_CASE_METHOD(StreamFixture, "refused graphs and captures are explained") {
  Graph graph(context);
  const DriverEvent event(context);
  EventRecordNode node;
  CHECK(explain_record_node(graph.try_record_node(node, event), graph, event) ==
        thrown([&] { graph.record_node(event); }));
  graph.add_record(event);
  graph.add_record(event);
  CHECK(explain_record_node(graph.try_record_node(node, event), graph, event) ==
        thrown([&] { graph.record_node(event); }));
  GraphExec exec = graph.instantiate();

  StreamCapture capture(context, stream), another;
  CHECK(explain_begin(another.try_begin(context, stream), another, context) ==
        thrown([&] { const StreamCapture refused(context, stream); }));
  CHECK(explain_begin(another.try_begin(context, nullptr), another, context) ==
        thrown([&] { const StreamCapture refused(context, nullptr); }));
  CaptureStatus status{};
  const Stream blocking(context, CU_STREAM_DEFAULT);
  StreamCapture of_blocking(context, blocking);
  CHECK(explain_capture_status(try_capture_status(status, context, nullptr), context) ==
        thrown([&] { capture_status(context, nullptr); }));
  Graph out;
  CHECK(exec.try_launch(stream) != CUDA_SUCCESS); // invalidates the capture
  CHECK_THAT(explain_end(capture.try_end(out), capture), ContainsSubstring("cuStreamEndCapture"));
  CHECK(explain_end(capture.try_end(out), capture) == thrown([&] { capture.end(); }));
}
