// SPDX-License-Identifier: MIT
#include <cuevent/retired_events.hpp>

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>

#include "allocations.hpp"
#include "on_threads.hpp"
#include "recording_fixture.hpp"

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

using namespace cuevent;
using namespace test;

static_assert(noexcept(retire(DriverEvent())) && noexcept(destroy_retired()) && noexcept(retired_events()));
// Handing over an event needs std::move.
static_assert(!std::is_invocable_v<decltype(retire), DriverEvent&>);
static_assert(std::is_same_v<decltype(destroy_retired()), std::size_t>);

TEST_CASE_METHOD(RecordingFixture, "destroy_retired destroys retired events, and nothing else does") {
  DriverEvent first = timed(), second(context);
  recording.calls();
  retire(std::move(first));
  retire(std::move(second));
  CHECK_FALSE(first);
  CHECK(recording.calls().empty());
  CHECK(RecordingDriver::live_events() == events_before + 2);
  CHECK(destroy_retired() == 2);
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuCtxGetId", nullptr},
                                                             {"cuEventDestroy", nullptr},
                                                             {"cuCtxGetId", nullptr},
                                                             {"cuEventDestroy", nullptr}});
  CHECK(destroy_retired() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "collect is another name of destroy_retired") {
  retire(DriverEvent(context));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK(destroy_retired() == 1);
#pragma GCC diagnostic pop
  CHECK(retired_events() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "retired_events counts the events that destroy_retired would destroy") {
  CHECK(retired_events() == 0);
  retire(DriverEvent(context));
  retire(DriverEvent());
  { const DriverEvent event(context, EventFlags::retire); }
  CHECK(retired_events() == 2);
  {
    Graph graph = Graph::borrow(context, graph_handle(1));
    graph.retain(DriverEvent(context));
    CHECK(retired_events() == 2); // the graph owns the other event
    recording.end_user_objects();
    CHECK(retired_events() == 3);
    recording.calls();
  }
  CHECK(recording.calls().empty());
  CHECK(destroy_retired() == 3);
  CHECK(retired_events() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "destroy_retired ends a context whose last owner is a retired event") {
  const long contexts = RecordingDriver::live_contexts();
  {
    const Context owned = Context::create(0, driver);
    const DriverEvent event(owned, EventFlags::retire);
  }
  CHECK(retired_events() == 1);
  CHECK(RecordingDriver::live_contexts() == contexts + 1);
  recording.calls();
  CHECK(destroy_retired() == 1);
  CHECK(recording.calls().back() == "cuCtxDestroy");
  CHECK(RecordingDriver::live_contexts() == contexts);
}

TEST_CASE_METHOD(RecordingFixture,
                 "retiring an empty event does nothing, and a borrowed one is not destroyed") {
  retire(DriverEvent());
  CHECK(destroy_retired() == 0);
  retire(DriverEvent::borrow(context, event_handle(1), EventFlags::none));
  destroy_retired();
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "an event made with EventFlags::retire is retired by its destructor") {
  {
    DriverEvent event(context, EventFlags::retire | EventFlags::timing);
    CHECK(event.flags() == (EventFlags::retire | EventFlags::timing));
    const DriverEvent taken =
        DriverEvent::from_native_handle(context, DriverEvent(context).release(), EventFlags::retire);
    DriverEvent moved = std::move(event);
    recording.calls();
  }
  CHECK(recording.calls().empty());
  CHECK(RecordingDriver::live_events() == events_before + 2);
  CHECK(destroy_retired() == 2);
  CHECK(RecordingDriver::live_events() == events_before);

  DriverEvent closed(context, EventFlags::retire);
  closed.close(); // destroyed immediately
  CHECK(destroy_retired() == 0);
  { const DriverEvent borrowed = DriverEvent::borrow(context, event_handle(1), EventFlags::retire); }
  CHECK(destroy_retired() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "a RetireScope retires the events that its thread destroys") {
  DriverEvent closed(context);
  {
    const RetireScope outer;
    { const DriverEvent first(context); }
    {
      const RetireScope inner;
      DriverEvent assigned(context);
      assigned = DriverEvent();
    }
    { const DriverEvent third(context); }
    closed.close(); // destroyed immediately
    CHECK(RecordingDriver::live_events() == events_before + 3);
    std::thread([&] { const DriverEvent other(context); }).join(); // another thread is not in the scope
    CHECK(RecordingDriver::live_events() == events_before + 3);
    CHECK(destroy_retired() == 3);
    CHECK(RecordingDriver::live_events() == events_before);
  }
  { const DriverEvent after(context); }
  CHECK(destroy_retired() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "a RetireScope that ends on another thread is reported") {
  std::unique_ptr<RetireScope> scope;
  std::thread([&] { scope = std::make_unique<RetireScope>(); }).join();
  HookedErrors hooked;
  scope.reset();
  CHECK(hooked.take() == CUDA_ERROR_INVALID_VALUE);
  { const DriverEvent event(context); } // this thread is in no scope
  CHECK(destroy_retired() == 0);
}

TEST_CASE_METHOD(RecordingFixture,
                 "destroying a graph or exec destroys only the events that graphs released") {
  DriverEvent retired(context);
  retire(std::move(retired));
  const auto release_one = [&] {
    Graph graph = Graph::borrow(context, graph_handle(1));
    graph.retain(DriverEvent(context));
    recording.end_user_objects();
  };
  const auto destroys = [&](const std::function<void()>& call) {
    release_one();
    const long before = RecordingDriver::live_events();
    call();
    return before - RecordingDriver::live_events();
  };
  CHECK(destroys([&] { Graph graph(context); }) == 1);
  Graph graph(context);
  CHECK(destroys([&] { static_cast<void>(graph.instantiate()); }) == 1);
  CHECK(destroys([&] { DriverEvent event(context); }) == 0);
  CHECK(destroys([&] { DriverEvent(context).close(); }) == 0);
  CHECK(destroy_retired() == 3);
}

TEST_CASE_METHOD(RecordingFixture, "recording, waiting and querying destroy no retired event") {
  DriverEvent event = timed();
  const DriverEvent end = timed();
  StreamCapture capture(context, stream);
  DriverEvent retired(context);
  retire(std::move(retired));
  recording.calls();
  event.record(stream);
  event.record(nullptr);
  event.record(stream, RecordFlags::external_in_capture);
  event.wait(stream);
  event.wait(nullptr);
  static_cast<void>(event.query());
  static_cast<void>(event.query_relaxed());
  event.synchronize();
  static_cast<void>(event.synchronize_for(std::chrono::nanoseconds(1)));
  event.elapsed_time(end);
  event.record_context(context);
  event.wait_context(context);
  capture_status(context, stream);
  for (const std::string_view call : recording.calls())
    CHECK(call != "cuEventDestroy");
  CHECK(destroy_retired() == 1);
}

TEST_CASE_METHOD(RecordingFixture,
                 "destroy_retired reports events that it cannot destroy and destroys the others") {
  HookedErrors hooked;
  DriverEvent first(context), second(context);
  retire(std::move(first));
  retire(std::move(second));
  recording.fail_next("cuEventDestroy", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(destroy_retired() == 2);
  CHECK(hooked.take() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(RecordingDriver::live_events() == events_before + 1);
  driver.table().cuEventDestroy_v4000(nullptr); // the one that the stubs still count
}

TEST_CASE_METHOD(RecordingFixture,
                 "the error hook reports if there is no memory to remember a retired event") {
  HookedErrors hooked;
  DriverEvent event(context);
  recording.calls();
  {
    const FailingAllocation failing(0);
    retire(std::move(event));
  }
  CHECK(hooked.take() == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_FALSE(event);
  CHECK(destroy_retired() == 0);
  CHECK(recording.calls().empty());
  CHECK(RecordingDriver::live_events() == events_before + 1); // leaked
  driver.table().cuEventDestroy_v4000(nullptr);
}

TEST_CASE_METHOD(RecordingFixture,
                 "each event is destroyed once while threads retire and destroy concurrently", "[threads]") {
  constexpr std::size_t threads = 8, each = 500;
  std::atomic<std::size_t> collected{0};
  std::barrier made(threads); // making an event destroys retired events too, without reporting how many
  on_threads(threads, [&](std::size_t t) {
    std::vector<DriverEvent> events;
    for (std::size_t i = 0; i < each; ++i)
      events.emplace_back(context);
    made.arrive_and_wait();
    for (std::size_t i = 0; i < each; ++i) {
      retire(std::move(events[i]));
      if (i % 16 == t) collected += destroy_retired();
    }
  });
  collected += destroy_retired();
  CHECK(collected == threads * each);
  CHECK(RecordingDriver::live_events() == events_before);
}
