// SPDX-License-Identifier: MIT
#include "fixture.hpp"

#include <catch2/catch_approx.hpp>

#include <atomic>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

namespace {

CUgraphExec instantiate(Fixture& f, CUgraph graph) {
  CUgraphExec exec = nullptr;
  OK(f.cu.instantiate(&exec, graph, 0));
  return exec;
}

CUgraph new_graph(Fixture& f) {
  CUgraph graph = nullptr;
  OK(f.cu.graph_create(&graph, 0));
  return graph;
}

/// Launches the graph while an earlier record of `recorded` is held back in another stream, and
/// returns what a query of `asked` says then. Once the record has completed, so has `asked`.
CUresult query_while_held(Fixture& f, CUgraph graph, CUevent recorded, CUevent asked) {
  const CUgraphExec exec = instantiate(f, graph);
  const CUstream held = f.new_stream();
  sim::hold(held);
  OK(f.cu.event_record(recorded, held));
  OK(f.cu.graph_launch(exec, f.stream));
  sim::run_until_idle();
  const CUresult answer = f.cu.event_query(asked);
  sim::release(held);
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(f.cu.event_query(asked) == CUDA_SUCCESS);
  return answer;
}

} // namespace

TEST_CASE("an external event holds the record of the last launch") {
  Fixture f;
  sim::set_kernel("work", {3ms});
  const CUevent start = f.event(), end = f.event();
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(f.cu.event_record_with_flags(start, f.stream, CU_EVENT_RECORD_EXTERNAL));
  OK(f.work(f.stream));
  OK(f.cu.event_record_with_flags(end, f.stream, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
  const CUgraphExec exec = instantiate(f, graph);

  float ms = 0;
  CHECK(f.cu.event_query(end) == CUDA_SUCCESS);
  CHECK(f.cu.event_elapsed(&ms, start, end) == CUDA_ERROR_INVALID_HANDLE);
  for (int launch = 0; launch < 3; ++launch) {
    OK(f.cu.graph_launch(exec, f.stream));
    CHECK(f.cu.event_query(end) == CUDA_ERROR_NOT_READY);
    CHECK(f.cu.event_elapsed(&ms, start, end) == CUDA_ERROR_NOT_READY);
    OK(f.cu.stream_synchronize(f.stream));
    OK(f.cu.event_elapsed(&ms, start, end));
    CHECK(ms == Catch::Approx(3.0013).margin(0.001));
  }
}

TEST_CASE("a record node comes after the event's earlier record if a wait for the event is further behind") {
  Fixture f;
  for (const bool same_event : {false, true})
    for (const bool next_to_it : {false, true}) {
      const CUevent recorded = f.event();
      const CUevent awaited = same_event ? recorded : f.event();
      const CUgraph graph = new_graph(f);
      CUgraphNode first = nullptr, second = nullptr, third = nullptr;
      OK(f.cu.add_record_node(&first, graph, nullptr, 0, recorded));
      OK(f.cu.add_record_node(&second, graph, next_to_it ? nullptr : &first, next_to_it ? 0 : 1, f.event()));
      OK(f.cu.add_wait_node(&third, graph, next_to_it ? &first : &second, 1, awaited));
      const CUresult answer = same_event && !next_to_it ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
      CHECK(query_while_held(f, graph, awaited, recorded) == answer);
    }
}

TEST_CASE("branches of a graph run concurrently") {
  Fixture f;
  sim::set_kernel("work", {5ms});
  const CUstream fork = f.new_stream();
  const CUevent begin = f.event(), joined = f.event();
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(f.cu.event_record(begin, f.stream));
  OK(f.cu.stream_wait(fork, begin, 0));
  OK(f.work(f.stream));
  OK(f.work(fork));
  OK(f.cu.event_record(joined, fork));
  OK(f.cu.stream_wait(f.stream, joined, 0));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
  const CUgraphExec exec = instantiate(f, graph);
  const auto before = sim::now();
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(sim::now() - before < 6ms);
}

TEST_CASE("a user object is destroyed after the graph, its execs and their launches") {
  static std::atomic<int> destroyed;
  destroyed = 0;
  Fixture f;
  const CUgraph graph = new_graph(f);
  CUgraphNode node = nullptr;
  OK(f.cu.add_record_node(&node, graph, nullptr, 0, f.event()));
  CUuserObject object = nullptr;
  OK(f.cu.user_object_create(
      &object, &destroyed, [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, 1,
      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(f.cu.retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = instantiate(f, graph);
  OK(f.cu.graph_destroy(graph));
  CHECK(destroyed == 0);
  CHECK(sim::live_handles().user_objects == 1);
  sim::hold(f.stream);
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.exec_destroy(exec));
  CHECK(destroyed == 0);
  sim::release(f.stream);
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(destroyed == 1);
  CHECK(sim::live_handles().user_objects == 0);
}

TEST_CASE("an event recorded in a capture does not keep the graph alive") {
  static std::atomic<int> destroyed;
  destroyed = 0;
  Fixture f;
  const CUevent inside = f.event();
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(f.cu.event_record(inside, f.stream));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
  CUuserObject object = nullptr;
  OK(f.cu.user_object_create(
      &object, &destroyed, [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, 1,
      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(f.cu.retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  OK(f.cu.graph_destroy(graph));
  CHECK(destroyed == 1);
  CHECK(f.cu.event_query(inside) == CUDA_ERROR_INVALID_VALUE);
}
