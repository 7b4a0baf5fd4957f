// SPDX-License-Identifier: MIT
// Every call that gives an event to something that outlives the call, with every kind of holder. The table is
// in docs/pools.md.
#include <cuevent/event_pool.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/ipc.hpp>
#include <cuevent/launch_attribute.hpp>

#include "recording_fixture.hpp"

#include <functional>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

struct Door {
  const char* name;
  std::function<void(EventRef)> call;
  std::function<CUresult(EventRef)> try_call;
};

struct Doors {
  explicit Doors(const Context& context)
      : graph(context), record(graph.add_record(mine = DriverEvent(context))), wait(graph.add_wait(mine)),
        exec(graph.instantiate()), recorder(context) {}

  std::vector<Door> all() {
    CUstream const stream = stream_handle(1);
    return {
        {"record", [=](EventRef event) { event.record(stream, RecordFlags::external); },
         [=](EventRef event) { return event.try_record(stream, RecordFlags::external); }},
        {"wait", [=](EventRef event) { event.wait(stream, WaitFlags::external); },
         [=](EventRef event) { return event.try_wait(stream, WaitFlags::external); }},
        {"FlightRecorder::record",
         [=, this](EventRef event) { recorder.record(event, stream, RecordFlags::external); },
         [=, this](EventRef event) { return recorder.try_record(event, stream, RecordFlags::external); }},
        {"FlightRecorder::wait",
         [=, this](EventRef event) { recorder.wait(event, stream, WaitFlags::external); },
         [=, this](EventRef event) { return recorder.try_wait(event, stream, WaitFlags::external); }},
        {"add_record", [this](EventRef event) { graph.add_record(event); },
         [this](EventRef event) { return graph.try_add_record(out_record, event); }},
        {"add_record after nodes",
         [this](EventRef event) { graph.add_record(event, {record.native_handle()}); },
         [this](EventRef event) { return graph.try_add_record(out_record, event); }},
        {"add_wait", [this](EventRef event) { graph.add_wait(event); },
         [this](EventRef event) { return graph.try_add_wait(out_wait, event); }},
        {"add_wait after nodes", [this](EventRef event) { graph.add_wait(event, {record.native_handle()}); },
         [this](EventRef event) { return graph.try_add_wait(out_wait, event); }},
        {"Graph::set_event, record", [this](EventRef event) { graph.set_event(record, event); },
         [this](EventRef event) { return graph.try_set_event(record, event); }},
        {"Graph::set_event, wait", [this](EventRef event) { graph.set_event(wait, event); },
         [this](EventRef event) { return graph.try_set_event(wait, event); }},
        {"GraphExec::set_event, record", [this](EventRef event) { exec.set_event(record, event); },
         [this](EventRef event) { return exec.try_set_event(record, event); }},
        {"GraphExec::set_event, wait", [this](EventRef event) { exec.set_event(wait, event); },
         [this](EventRef event) { return exec.try_set_event(wait, event); }},
        {"programmatic_event", [](EventRef event) { static_cast<void>(programmatic_event(event)); }, {}},
        {"launch_completion_event",
         [](EventRef event) { static_cast<void>(launch_completion_event(event)); },
         {}},
    };
  }

  DriverEvent mine;
  Graph graph;
  EventRecordNode record, out_record;
  EventWaitNode wait, out_wait;
  GraphExec exec;
  FlightRecorder recorder;
};

} // namespace

TEST_CASE_METHOD(RecordingFixture, "every door to a graph or a launch refuses an event on lease") {
  EventPool pool(context);
  const PooledEvent pooled = pool.acquire();
  const SharedEvent shared = pool.acquire().share();
  pooled.record(stream_handle(1));
  shared.record(stream_handle(1));
  Doors doors(context);
  const std::pair<const char*, EventRef> leases[] = {{"PooledEvent", pooled},
                                                     {"SharedEvent", shared},
                                                     {"EventRef of a lease", EventRef(pooled)},
                                                     {"Lease::event()", pooled.event()}};
  for (const Door& door : doors.all())
    for (const auto& lease : leases) {
      const EventRef event = lease.second; // clang++ 14 captures no structured binding
      CAPTURE(door.name, lease.first);
      recording.calls();
      CHECK_THAT(refusal<NotSupported>([&] { door.call(event); }),
                 ContainsSubstring("on lease") && ContainsSubstring("PooledEvent::detach()"));
      if (door.try_call) CHECK(door.try_call(event) == CUDA_ERROR_NOT_SUPPORTED);
      for (const std::string_view call : recording.calls()) { // it can ask for the capture, and no more
        CHECK_FALSE(call.starts_with("cuGraph"));
        CHECK_FALSE((call.starts_with("cuEventRecord") || call == "cuStreamWaitEvent"));
      }
    }
}

TEST_CASE_METHOD(RecordingFixture, "every door takes an event that somebody keeps alive") {
  DriverEvent owned(context);
  const DriverEvent borrowed = DriverEvent::borrow(context, owned.native_handle(), EventFlags::none);
  EventPool pool(context);
  const DriverEvent detached = pool.acquire().detach();
  Doors doors(context);
  const std::pair<const char*, EventRef> events[] = {{"DriverEvent", owned},
                                                     {"const DriverEvent", std::as_const(owned)},
                                                     {"borrowed", borrowed},
                                                     {"EventRef", EventRef(owned)},
                                                     {"CUevent", EventRef(owned.native_handle(), driver)},
                                                     {"detached", detached}};
  for (const Door& door : doors.all())
    for (const auto& [holder, event] : events) {
      CAPTURE(door.name, holder);
      CHECK_NOTHROW(door.call(event));
      if (door.try_call) CHECK(door.try_call(event) == CUDA_SUCCESS);
    }
}

TEST_CASE_METHOD(RecordingFixture, "every door refuses an empty event") {
  Doors doors(context);
  EventPool pool(context);
  const PooledEvent no_lease;
  for (const Door& door : doors.all()) {
    CAPTURE(door.name);
    refusal<EmptyEvent>([&] { door.call(EventRef()); });
    refusal<EmptyEvent>([&] { door.call(no_lease); });
  }
}

TEST_CASE_METHOD(RecordingFixture, "the event of a lease refuses what the lease refuses") {
  EventPool pool(context, EventFlags::interprocess);
  PooledEvent lease = pool.acquire();
  lease.record(stream_handle(1));
  const DriverEvent& event = lease.event();
  refusal<NotSupported>([&] { event.wait(stream_handle(1), WaitFlags::external); });
  CHECK(event.try_wait(stream_handle(1), WaitFlags::external) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK_THAT(refusal<NotSupported>([&] { static_cast<void>(event.ipc_handle()); }),
             ContainsSubstring("PooledEvent::ipc_handle()"));
  IpcHandle handle;
  CHECK(event.try_ipc_handle(handle) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(lease.try_ipc_handle(handle) == CUDA_SUCCESS); // this one does not return to the pool
  const SharedEvent shared = pool.acquire().share();
  CHECK(shared.event().try_ipc_handle(handle) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE_METHOD(RecordingFixture, "a node takes over an event that is moved into it") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  const long before = RecordingDriver::live_events();
  DriverEvent first(context), second(context), third(context), fourth(context);
  recording.calls();
  const EventRecordNode record = graph.add_record(std::move(first));
  CHECK(recording.calls() ==
        Names{"cuUserObjectCreate", "cuGraphRetainUserObject", "cuGraphAddEventRecordNode"});
  const EventWaitNode wait = graph.add_wait(std::move(second), {record.native_handle()});
  graph.set_event(record, std::move(third));
  CHECK(graph.try_set_event(wait, std::move(fourth)) == CUDA_SUCCESS);
  CHECK_FALSE((first || second || third || fourth)); // NOLINT(bugprone-use-after-move)
  CHECK(RecordingDriver::live_events() == before + 4);
  end_graphs();
  CHECK(RecordingDriver::live_events() == before);
}

TEST_CASE_METHOD(RecordingFixture, "a node that is refused gives back the event that was moved into it") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  DriverEvent event(context);
  CUevent const handle = event.native_handle();
  EventRecordNode record;
  EventWaitNode wait;
  for (const char* const call :
       {"cuUserObjectCreate", "cuGraphRetainUserObject", "cuGraphAddEventRecordNode"}) {
    CAPTURE(call);
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    refusal<OutOfMemory>([&] { graph.add_record(std::move(event)); });
    CHECK(event.native_handle() == handle); // NOLINT(bugprone-use-after-move)
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(graph.try_add_record(record, std::move(event)) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(event.native_handle() == handle);
  }
  recording.fail_next("cuGraphAddEventWaitNode", CUDA_ERROR_INVALID_VALUE);
  CHECK(graph.try_add_wait(wait, std::move(event)) == CUDA_ERROR_INVALID_VALUE);
  recording.fail_next("cuGraphEventRecordNodeSetEvent", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>([&] { graph.set_event(record, std::move(event)); }),
             ContainsSubstring("keep the graph"));
  recording.fail_next("cuGraphEventWaitNodeSetEvent", CUDA_ERROR_INVALID_VALUE);
  CHECK(graph.try_set_event(wait, std::move(event)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(event.native_handle() == handle);
  recording.end_user_objects();
  CHECK(destroy_retired() == 0);
  CHECK(event.native_handle() == handle);
}
