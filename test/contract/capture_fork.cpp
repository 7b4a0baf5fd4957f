// SPDX-License-Identifier: MIT
// CaptureFork, and changes of the frontier by hand.
#include "capture.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture_fork.hpp>
#include <cuevent/graph_exec.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

using Nodes = std::vector<CUgraphNode>;

Nodes sorted(Nodes nodes) {
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

/// A stream that is being captured. Each mark is a node with an event of its own.
class MarkedCapture : public Fixture {
protected:
  CUgraphNode mark() {
    events_.emplace_back(context).record(stream, RecordFlags::external);
    return capture_info(context, stream).graph().record_node(events_.back()).native_handle();
  }
  Nodes frontier() const { return sorted(capture_info(context, stream).frontier()); }
  static Nodes before(CUgraphNode node) {
    const auto get = test::call<PFN_cuGraphNodeGetDependencies_v10000>("cuGraphNodeGetDependencies", 10000);
    std::size_t count = 0;
    REQUIRE(get(node, nullptr, &count) == CUDA_SUCCESS);
    Nodes nodes(count);
    if (count != 0) REQUIRE(get(node, nodes.data(), &count) == CUDA_SUCCESS);
    return sorted(nodes);
  }

  const Stream stream{context};

private:
  std::vector<DriverEvent> events_;
};

} // namespace

TEST_CASE_METHOD(MarkedCapture, "branches begin at the fork, and later work follows all of them") {
  StreamCapture capture(context, stream,
                        GENERATE(CaptureMode::global, CaptureMode::per_thread, CaptureMode::relaxed));
  CUgraphNode const root = mark();
  CaptureFork fork(context, stream);
  CUgraphNode const first = mark(), first_end = mark();
  fork.next_branch();
  CUgraphNode const second = mark();
  fork.next_branch();
  CUgraphNode const third = mark();
  fork.join();
  CHECK(frontier() == sorted({first_end, second, third}));
  CUgraphNode const last = mark();
  CHECK(before(first) == Nodes{root});
  CHECK(before(first_end) == Nodes{first});
  CHECK(before(second) == Nodes{root});
  CHECK(before(third) == Nodes{root});
  CHECK(before(last) == sorted({first_end, second, third}));
  CHECK(capture.end());
}

TEST_CASE_METHOD(MarkedCapture, "a fork at the begin of a capture has branches without predecessors") {
  StreamCapture capture(context, stream);
  CUgraphNode first = nullptr, second = nullptr;
  {
    CaptureFork fork(context, stream);
    first = mark();
    fork.next_branch();
    second = mark();
  }
  CHECK(before(second).empty());
  CHECK(frontier() == sorted({first, second}));
  CHECK(capture.end());
}

TEST_CASE_METHOD(MarkedCapture, "forks nest") {
  StreamCapture capture(context, stream);
  CUgraphNode const root = mark();
  CUgraphNode left = nullptr, inner_left = nullptr, inner_right = nullptr;
  {
    CaptureFork outer(context, stream);
    left = mark();
    outer.next_branch();
    CaptureFork inner(context, stream);
    inner_left = mark();
    inner.next_branch();
    inner_right = mark();
  }
  CHECK(frontier() == sorted({left, inner_left, inner_right}));
  CHECK(before(inner_left) == Nodes{root});
  CHECK(before(inner_right) == Nodes{root});
  CHECK(capture.end());
}

TEST_CASE_METHOD(MarkedCapture, "a branch can fork streams with events too") {
  const Stream other(context);
  DriverEvent forked(context), joined(context), there(context);
  StreamCapture capture(context, stream);
  CUgraphNode first = nullptr;
  {
    CaptureFork fork(context, stream);
    first = mark();
    fork.next_branch();
    forked.record(stream);
    forked.wait(other);
    there.record(other, RecordFlags::external);
    joined.record(other);
    joined.wait(stream);
  }
  const Nodes now = frontier();
  CUgraphNode const theirs = capture_info(context, stream).graph().record_node(there).native_handle();
  CHECK(std::count(now.begin(), now.end(), first) == 1);
  CHECK(std::count(now.begin(), now.end(), theirs) == 1);
  CHECK(capture.end());
}

TEST_CASE_METHOD(MarkedCapture,
                 "a fork in an invalidated capture is refused, and one begun before joins silently") {
  DriverEvent inside(context);
  StreamCapture capture(context, stream);
  {
    CaptureFork fork(context, stream);
    mark();
    fork.next_branch();
    inside.record(stream);
    CHECK_THROWS_AS(inside.query_relaxed(), CapturedEvent);
    CHECK_THROWS_AS(fork.join(), StreamCaptureInvalidated);
    CHECK_THROWS_AS(CaptureFork(context, stream), StreamCaptureInvalidated);
  }
  CHECK(take_reports().empty());
  CHECK_THROWS_AS(capture.end(), StreamCaptureInvalidated);
}

TEST_CASE_METHOD(MarkedCapture, "dependencies are added, replaced and removed, and nothing is unjoined") {
  StreamCapture capture(context, stream);
  CUgraphNode const first = mark(), second = mark();
  set_capture_dependencies(context, stream, {first});
  CHECK(frontier() == Nodes{first});
  CUgraphNode const third = mark();
  CHECK(before(third) == Nodes{first});
  add_capture_dependencies(context, stream, {second});
  CHECK(frontier() == sorted({second, third}));
  set_capture_dependencies(context, stream, {});
  CHECK(frontier().empty());
  CHECK(before(mark()).empty());
  CHECK(capture.end().event_nodes().records.size() == 4);
}

TEST_CASE_METHOD(MarkedCapture, "a node of another graph is refused, and the capture goes on") {
  Graph elsewhere(context);
  DriverEvent event(context);
  CUgraphNode const foreign = elsewhere.add_record(event).native_handle();
  StreamCapture capture(context, stream);
  CUgraphNode const own = mark();
  CHECK_THROWS_AS(add_capture_dependencies(context, stream, {foreign}), InvalidValue);
  CHECK_THROWS_WITH(set_capture_dependencies(context, stream, {foreign}), ContainsSubstring("another graph"));
  CHECK_THROWS_AS(add_capture_dependencies(context, stream, {nullptr}), InvalidValue);
  CHECK(frontier() == Nodes{own});
  CHECK(capture.end());
}

TEST_CASE_METHOD(MarkedCapture, "at a launch the branches run independently, and the join waits for both") {
  const Stream gated(context);
  DriverEvent held(context), beside(context), after(context);
  StreamCapture capture(context, stream);
  {
    CaptureFork fork(context, stream);
    held.wait(stream, WaitFlags::external);
    fork.next_branch();
    beside.record(stream, RecordFlags::external);
  }
  after.record(stream, RecordFlags::external);
  const Graph graph = capture.end();
  GraphExec exec = graph.instantiate();
  Gate gate(gated);
  held.record(gated);
  exec.launch(stream);
  CHECK(beside.synchronize_for(1min));
  CHECK_FALSE(after.query());
  gate.open();
  CHECK(after.synchronize_for(1min));
}
