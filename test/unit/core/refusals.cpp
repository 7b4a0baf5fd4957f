// SPDX-License-Identifier: MIT
// Refused calls of the non-throwing overloads are ordinary: they allocate nothing, so they throw no error
// inside, because each DriverError allocates its text.
#include "allocations.hpp"
#include "recording_fixture.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/capture_info.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <algorithm>
#include <utility>

using namespace cuevent;
using namespace test;

namespace {

struct RefusalFixture : RecordingFixture {
  RefusalFixture() { recording.stream_context(context_handle(1)); }

  /// `call` is refused, and allocates nothing. The stubs sometimes need memory for their list of calls.
  template <class Call>
  void refused(const Call& call) {
    std::size_t fewest = 1000;
    for (int i = 0; i < 4; ++i) {
      const std::size_t before = allocations_of_this_thread();
      const CUresult result = call();
      fewest = std::min(fewest, allocations_of_this_thread() - before);
      CHECK(result != CUDA_SUCCESS);
    }
    CHECK(fewest == 0);
  }

  Context other = Context::borrow(context_handle(2), driver), none;
  Context foreign = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
};

} // namespace

TEST_CASE_METHOD(RefusalFixture, "a DriverError allocates, so that allocations show one") {
  const std::size_t before = allocations_of_this_thread();
  refusal<InvalidContext>([&] { static_cast<void>(EventPool().acquire()); });
  CHECK(allocations_of_this_thread() > before);
}

TEST_CASE_METHOD(RefusalFixture, "a refused call of a pool allocates nothing") {
  constexpr EventFlags wrong = EventFlags::timing | EventFlags::interprocess;
  EventPool pool(context), empty, out, unusable(context, wrong);
  PooledEvent lease;
  refused([&] { return EventPool::try_create(out, none); });
  recording.fail_always("cuEventCreate", CUDA_ERROR_INVALID_VALUE);
  refused([&] { return EventPool::try_create(out, context, wrong, FreshLease::reads_new, 8); });
  refused([&] { return unusable.try_acquire(lease); });
  refused([&] { return pool.try_reserve(1); });
  recording.fail_nothing();
  refused([&] { return empty.try_acquire(lease); });
  refused([&] { return empty.try_reserve(1); });
  refused([&] { return pool.try_reserve(EventPool::default_max_idle + 1); });
  refused([&] { return pool.try_wait_stream(stream_handle(2), {other, stream}); });
  refused([&] { return pool.try_wait_stream({none, stream}, stream_handle(2)); });
  for (const char* call : {"cuCtxGetId", "cuEventRecord", "cuStreamWaitEvent"}) {
    recording.fail_always(call, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    refused([&] { return pool.try_wait_stream(stream_handle(2), stream); });
    recording.fail_nothing();
  }
  const PooledEvent fresh = pool.acquire();
  DriverEvent::Milliseconds time{};
  refused([&] { return fresh.try_query(); });
  refused([&] { return fresh.try_wait(stream); });
  refused([&] { return fresh.try_synchronize_for(1ns); });
  refused([&] { return fresh.try_elapsed_time(time, fresh); });
  refused([&] { return fresh.try_record(stream, RecordFlags::external); });
}

TEST_CASE_METHOD(RefusalFixture, "a refused call of the pools of several contexts allocates nothing") {
  EventPools pools(driver), empty;
  PooledEvent lease = pools.acquire(stream);
  for (EventPools* each : {&pools, &empty}) {
    refused([&] { return each->try_acquire(lease, {none, stream}); });
    refused([&] { return each->try_acquire(lease, {foreign, stream}); });
    refused([&] { return each->try_acquire_current(lease); });
    refused([&] { return each->try_reserve(none, 1); });
    refused([&] { return each->try_reserve(context, std::size_t{1} << 40); });
    refused([&] { return each->try_wait_stream({none, stream}, stream_handle(2)); });
  }
  refused([&] { return pools.try_acquire(lease, {other, stream}); });
  for (const char* call : {"cuStreamGetCtx", "cuCtxGetId", "cuEventRecord", "cuStreamWaitEvent"}) {
    recording.fail_always(call, CUDA_ERROR_INVALID_HANDLE);
    refused([&] { return pools.try_wait_stream(stream_handle(2), stream); });
    recording.fail_nothing();
  }
}

TEST_CASE_METHOD(RefusalFixture, "a refused call of a graph allocates nothing") {
  Graph graph(context), empty, out;
  GraphExec exec = graph.instantiate(), no_exec, new_exec;
  DriverEvent event(context), no_event, of_foreign(foreign), before;
  EventRecordNode record(node_handle(0));
  EventWaitNode wait(node_handle(1));
  Graph::EventNodes nodes;
  CUevent handle = nullptr;
  refused([&] { return Graph::try_create(out, none); });
  const auto refused_for = [&](Graph& each, DriverEvent& given) {
    refused([&] { return each.try_add_record(record, given); });
    refused([&] { return each.try_add_wait(wait, given); });
    refused([&] { return each.try_set_event(record, given); });
    refused([&] { return each.try_set_event(wait, given); });
    refused([&] { return each.try_record_node(record, given); });
    refused([&] { return each.try_wait_node(wait, given); });
    refused([&] { return each.try_retain(std::move(given)); });
  };
  refused_for(graph, no_event);
  refused_for(graph, of_foreign);
  refused_for(empty, event);
  refused([&] { return graph.try_record_node(record, event); }); // no such node
  refused([&] { return empty.try_event(handle, record); });
  refused([&] { return empty.try_event_nodes(nodes); });
  refused([&] { return empty.try_instantiate(new_exec); });
  refused([&] { return no_exec.try_launch(stream); });
  refused([&] { return no_exec.try_set_event(record, event); });
  refused([&] { return exec.try_set_event(wait, no_event); });
  for (const char* call : {"cuGraphGetNodes", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
                           "cuGraphAddEventRecordNode", "cuGraphExecEventRecordNodeSetEvent"})
    recording.fail_always(call, CUDA_ERROR_INVALID_VALUE);
  refused([&] { return graph.try_event_nodes(nodes); });
  refused([&] { return graph.try_instantiate(new_exec); });
  refused([&] { return graph.try_add_record(record, event); });
  refused([&] { return exec.try_launch(stream); });
  refused([&] { return exec.try_set_event(record, event); });
  recording.fail_nothing();
}

TEST_CASE_METHOD(RefusalFixture, "a refused call of a capture allocates nothing") {
  Graph graph(context), empty, of_foreign(foreign), out;
  StreamCapture capture;
  DriverEvent no_event, borrowed;
  CaptureStatus status{};
  CaptureInfo info;
  refused([&] { return capture.try_begin(context, stream, empty); });
  refused([&] { return capture.try_begin(context, stream, of_foreign); });
  refused([&] { return capture.try_end(out); });
  refused([&] { return try_capture_status(status, none, nullptr); });
  refused([&] { return try_capture_info(info, none, stream); });
  for (const char* call : {"cuStreamBeginCapture", "cuStreamBeginCaptureToGraph", "cuStreamIsCapturing"})
    recording.fail_always(call, CUDA_ERROR_ILLEGAL_STATE);
  refused([&] { return capture.try_begin(context, stream); });
  refused([&] { return capture.try_begin(context, stream, graph); });
  refused([&] { return try_capture_status(status, context, stream); });
  recording.fail_nothing();
  CHECK(capture.try_begin(context, stream) == CUDA_SUCCESS);
  refused([&] { return capture.try_begin(context, stream); });
  refused([&] { return capture.try_record(borrowed, std::move(no_event), stream); });
}

TEST_CASE_METHOD(RefusalFixture, "a refused call of a queue, a fence or a semaphore allocates nothing") {
  CompletionQueue queue(context), no_queue;
  TimelineFence fence(context, stream), no_fence;
  TimelineSemaphore semaphore(context), none_left;
  CompletionLane lane;
  std::uint64_t ticket = 0;
  refused([&] { return no_queue.try_when_complete(stream, [](CUresult) {}); });
  refused([&] { return queue.try_when_complete({other, stream}, [](CUresult) {}); });
  refused([&] { return queue.try_lane(lane, {none, stream}); });
  refused([&] { return queue.try_reserve(std::size_t{1} << 40); });
  refused([&] { return no_fence.try_signal(ticket); });
  refused([&] { return fence.try_wait(stream_handle(2), 99); });
  refused([&] { return none_left.try_signal(1); });
  refused([&] { return semaphore.try_signal(~std::uint64_t{0}); });
  refused([&] { return semaphore.try_wait(stream, 5); });
}

TEST_CASE_METHOD(RefusalFixture, "a function that needs a newer driver is looked up without an allocation") {
  void (*function)() = nullptr;
  refused([&] { return driver.try_entry_point(function, "cuEventQuery", 99000); });
}
