// SPDX-License-Identifier: MIT
// Event nodes of graphs: adding them, reading them, changing their events, and keeping the events alive.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

std::vector<CUgraphNode> dependencies(CUgraphNode node) {
  const auto get = test::call<PFN_cuGraphNodeGetDependencies_v10000>("cuGraphNodeGetDependencies", 10000);
  std::size_t count = 0;
  REQUIRE(get(node, nullptr, &count) == CUDA_SUCCESS);
  std::vector<CUgraphNode> nodes(count);
  if (count != 0) REQUIRE(get(node, nodes.data(), &count) == CUDA_SUCCESS);
  return nodes;
}

bool was_recorded(const DriverEvent& timed) {
  DriverEvent::Milliseconds time;
  return timed.try_elapsed_time(time, timed) == CUDA_SUCCESS;
}

} // namespace

TEST_CASE_METHOD(Fixture, "event nodes run after their dependencies and return their event") {
  const DriverEvent first(context), middle(context), last(context);
  Graph graph(context);
  const EventRecordNode begin = graph.add_record(first);
  const EventWaitNode wait = graph.add_wait(middle, {begin.native_handle()});
  const EventRecordNode end = graph.add_record(last, {begin.native_handle(), wait.native_handle()});
  CHECK(dependencies(begin.native_handle()).empty());
  CHECK(dependencies(wait.native_handle()) == std::vector{begin.native_handle()});
  CHECK(dependencies(end.native_handle()).size() == 2);
  CHECK(graph.event(begin) == first.native_handle());
  CHECK(graph.event(wait) == middle.native_handle());
  CHECK(graph.event(end) == last.native_handle());

  const Graph::EventNodes nodes = graph.event_nodes();
  REQUIRE(nodes.records.size() == 2);
  CHECK(((nodes.records[0] == begin && nodes.records[1] == end) ||
         (nodes.records[0] == end && nodes.records[1] == begin)));
  CHECK(nodes.waits == std::vector{wait});
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(Fixture, "the synchronisation of a context waits for launches that refer to its events") {
  const Context other = Context::create(0, driver);
  const Stream stream(other);
  const DriverEvent event(context);
  Graph graph(other);
  const bool in_launch = GENERATE(true, false);
  if (in_launch && GENERATE(true, false))
    graph.add_record(event);
  else if (in_launch)
    graph.add_wait(event);
  GraphExec exec = graph.instantiate();
  std::atomic<int> result = -1;
  std::jthread synchronizes; // ends after the gate has been opened
  Gate gate(stream);
  exec.launch(stream);
  event.wait(stream);
  synchronizes = std::jthread([&] {
    const ContextGuard current(context);
    result = test::call<PFN_cuCtxSynchronize_v2000>("cuCtxSynchronize", 2000)();
    result.notify_all();
  });
  if (in_launch) {
    std::this_thread::sleep_for(50ms);
    CHECK(result == -1);
    gate.open();
  }
  for (int left = 10'000; left > 0 && result == -1; --left)
    std::this_thread::sleep_for(1ms);
  CHECK(result == CUDA_SUCCESS);
}

TEST_CASE_METHOD(Fixture,
                 "a wait node holds back its successors at each launch until the latest record completes") {
  const Stream stream(context), gated(context);
  DriverEvent outside(context);
  const DriverEvent done(context);
  Graph graph(context);
  const EventWaitNode wait = graph.add_wait(outside);
  graph.add_record(done, {wait.native_handle()});
  GraphExec exec = graph.instantiate();
  for (int launch = 0; launch < 2; ++launch) {
    CAPTURE(launch);
    Gate gate(gated);
    outside.record(gated);
    exec.launch(stream);
    CHECK_FALSE(done.query());
    gate.open();
    CHECK(done.synchronize_for(1min));
    CHECK(outside.query());
  }
}

TEST_CASE_METHOD(StreamFixture, "setting an event in a graph or its exec does not change the other") {
  const DriverEvent first(context, EventFlags::timing), second(context, EventFlags::timing),
      third(context, EventFlags::timing);
  Graph graph(context);
  const EventRecordNode node = graph.add_record(first);
  GraphExec exec = graph.instantiate();
  exec.set_event(node, second);
  CHECK(graph.event(node) == first.native_handle());
  graph.set_event(node, third);
  CHECK(graph.event(node) == third.native_handle());

  exec.launch(stream);
  CHECK(second.synchronize_for(1min));
  CHECK(was_recorded(second));
  CHECK_FALSE(was_recorded(first));
  CHECK_FALSE(was_recorded(third));

  GraphExec anew = graph.instantiate();
  anew.launch(stream);
  CHECK(third.synchronize_for(1min));
  CHECK(was_recorded(third));
  CHECK_FALSE(was_recorded(first));
}

TEST_CASE_METHOD(Fixture, "a wait node waits only for its new event after set_event") {
  const Stream stream(context), gated(context);
  DriverEvent held(context);
  const DriverEvent never(context), done(context);
  Graph graph(context);
  const EventWaitNode wait = graph.add_wait(held);
  graph.add_record(done, {wait.native_handle()});
  GraphExec exec = graph.instantiate();
  Gate gate(gated);
  held.record(gated);
  exec.set_event(wait, never);
  CHECK(graph.event(wait) == held.native_handle());
  exec.launch(stream);
  CHECK(done.synchronize_for(1min));
  CHECK_FALSE(held.query());

  exec.set_event(wait, held);
  graph.set_event(wait, never);
  CHECK(graph.event(wait) == never.native_handle());
  exec.launch(stream);
  CHECK_FALSE(done.query());
  gate.open();
  CHECK(done.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "each launch of one captured graph can be timed by a fresh pair of events") {
  const Stream stream(context), gated(context);
  DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
  DriverEvent between(context);
  between.record(gated);
  StreamCapture capture(context, stream);
  start.record(stream, RecordFlags::external);
  between.wait(stream, WaitFlags::external);
  end.record(stream, RecordFlags::external);
  Graph graph = capture.end();
  const Graph::EventNodes nodes = graph.event_nodes();
  REQUIRE(nodes.records.size() == 2);
  REQUIRE(nodes.waits.size() == 1);
  CHECK(graph.event(nodes.waits[0]) == between.native_handle());
  const bool in_order = graph.event(nodes.records[0]) == start.native_handle();
  const EventRecordNode start_node = nodes.records[in_order ? 0 : 1];
  const EventRecordNode end_node = nodes.records[in_order ? 1 : 0];
  CHECK(graph.event(start_node) == start.native_handle());
  CHECK(graph.event(end_node) == end.native_handle());

  GraphExec exec = graph.instantiate();
  std::vector<DriverEvent> pairs;
  for (int launch = 0; launch < 6; ++launch)
    pairs.emplace_back(context, EventFlags::timing);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    exec.set_event(start_node, pairs[i]);
    exec.set_event(end_node, pairs[i + 1]);
    exec.launch(stream); // a launch may still run when the next one gets its events
  }
  CHECK(pairs.back().synchronize_for(1min));
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    CHECK(pairs[i].elapsed_time(pairs[i + 1]).count() > 0);
    CHECK(pairs.front().elapsed_time(pairs[i]).count() >= 0);
  }
  CHECK_FALSE(was_recorded(start));
  CHECK_FALSE(was_recorded(end));
}

TEST_CASE_METHOD(Fixture, "an exec refuses an event of another context and a node of another graph") {
  const Context created = Context::create(0, driver);
  const DriverEvent event(context);
  DriverEvent theirs(created), ours(context);
  CUevent const handle = theirs.native_handle();
  Graph graph(context), other(context);
  const EventRecordNode node = graph.add_record(event), stranger = other.add_record(event);
  GraphExec exec = graph.instantiate();
  CHECK_THROWS_AS(exec.set_event(node, std::as_const(theirs)), InvalidValue);
  CHECK_THROWS_WITH(exec.set_event(node, std::as_const(theirs)), ContainsSubstring("different context"));
  CHECK_THROWS_AS(exec.set_event(stranger, std::as_const(ours)), InvalidValue);
  CHECK_THROWS_AS(exec.set_event(node, std::as_const(theirs)), InvalidValue);
  CHECK_THROWS_AS(exec.set_event(node, DriverEvent()), EmptyEvent);

  CHECK_THROWS_AS(static_cast<void>(exec.set_event(node, std::move(theirs))), InvalidValue);
  CHECK(theirs.native_handle() == handle); // NOLINT(bugprone-use-after-move)
  CHECK_FALSE(exec.set_event(node, std::move(ours)));
  CHECK_THROWS_AS(static_cast<void>(exec.set_event(node, std::move(theirs))), InvalidValue);
  CHECK(theirs.native_handle() == handle); // NOLINT(bugprone-use-after-move)
}
