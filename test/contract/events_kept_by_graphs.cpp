// SPDX-License-Identifier: MIT
// Events that graphs and execs keep alive, and when they end.
#include "destroyed.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <chrono>
#include <optional>
#include <utility>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(StreamFixture,
                 "a retained event lives until its graph and execs are gone, and is then collected") {
  const int before = live_handles().events;
  std::optional<Graph> graph(std::in_place, context);
  DriverEvent event(context);
  const DriverEvent seen = DriverEvent::borrow(context, event.native_handle(), event.flags());
  graph->add_record(event);
  graph->retain(std::move(event));
  CHECK_FALSE(event); // NOLINT(bugprone-use-after-move)
  std::optional<GraphExec> first(graph->instantiate()), second(graph->instantiate());
  first->launch(stream);
  CHECK(seen.synchronize_for(1min));
  graph.reset();
  first.reset();
  destroy_retired();
  CHECK(live_handles().events == before + 1);
  second->launch(stream);
  CHECK(seen.synchronize_for(1min));
  CHECK(live_handles().events == before + 1);
  second.reset();
  CHECK(destroyed_down_to(before, destroy_retired));
}

TEST_CASE_METHOD(StreamFixture, "a pending event can be retired, and its stream goes on") {
  DriverEvent after(context);
  {
    Gate gate(stream);
    DriverEvent event(context, EventFlags::retire);
    event.record(stream);
    after.record(stream);
  }
  CHECK(destroy_retired() == 1);
  CHECK(after.synchronize_for(1min));
}

TEST_CASE_METHOD(StreamFixture,
                 "a retained event outlives a launch in flight whose graph and exec are gone") {
  const int before = live_handles().events;
  DriverEvent after(context);
  {
    Graph graph(context);
    DriverEvent event(context);
    graph.add_record(event);
    graph.retain(std::move(event));
    GraphExec exec = graph.instantiate();
    Gate gate(stream);
    exec.launch(stream);
    after.record(stream);
    { const GraphExec gone = std::move(exec); }
    { const Graph gone = std::move(graph); }
    destroy_retired();
    CHECK(live_handles().events == before + 2);
    gate.open();
  }
  CHECK(after.synchronize_for(1min));
  CHECK(destroyed_down_to(before + 1, destroy_retired));
}

TEST_CASE_METHOD(Fixture, "a retained event keeps its owned context alive") {
  test::LiveHandles before = live_handles();
  {
    std::optional<Context> created(Context::create(0, driver));
    std::optional<Graph> graph(std::in_place, Context::borrow(created->native_handle(), driver));
    graph->retain(DriverEvent(*created));
    created.reset();
    CHECK(live_handles().contexts == before.contexts + 1);
    graph.reset();
  }
  CHECK(destroyed_down_to(before.events, destroy_retired));
  CHECK(live_handles().contexts == before.contexts);
}

TEST_CASE_METHOD(StreamFixture, "set_event returns the event that the exec kept before, with its time") {
  const int before = live_handles().events;
  {
    const DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
    Graph graph(context);
    const EventRecordNode start_node = graph.add_record(start);
    const EventRecordNode end_node = graph.add_record(end, {start_node.native_handle()});
    GraphExec exec = graph.instantiate();
    CHECK_FALSE(exec.set_event(start_node, DriverEvent(context, EventFlags::timing)));
    CHECK_FALSE(exec.set_event(end_node, DriverEvent(context, EventFlags::timing)));
    for (int launch = 0; launch < 3; ++launch) {
      exec.launch(stream);
      const DriverEvent started = exec.set_event(start_node, DriverEvent(context, EventFlags::timing));
      const DriverEvent ended = exec.set_event(end_node, DriverEvent(context, EventFlags::timing));
      REQUIRE(started);
      REQUIRE(ended);
      CHECK(ended.synchronize_for(1min));
      CHECK(started.elapsed_time(ended).count() > 0);
    }
    CHECK(live_handles().events == before + 4);
    CHECK_THROWS_AS(start.elapsed_time(start), NeverRecorded);
  }
  CHECK(live_handles().events == before); // destroyed with the exec
}

TEST_CASE_METHOD(Fixture, "an exec also keeps the events of wait nodes") {
  const Stream stream(context), gated(context);
  const DriverEvent never(context), done(context);
  Graph graph(context);
  const EventWaitNode wait = graph.add_wait(never);
  graph.add_record(done, {wait.native_handle()});
  GraphExec exec = graph.instantiate();
  Gate gate(gated);
  DriverEvent held(context);
  held.record(gated);
  CUevent const handle = held.native_handle();
  CHECK_FALSE(exec.set_event(wait, std::move(held)));
  exec.launch(stream);
  CHECK_FALSE(done.query());
  gate.open();
  CHECK(done.synchronize_for(1min));
  CHECK(exec.set_event(wait, DriverEvent(context)).native_handle() == handle);
}
