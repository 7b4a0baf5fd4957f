// SPDX-License-Identifier: MIT
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include "recording_fixture.hpp"

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;
using Catch::Matchers::StartsWith;

static_assert(!std::is_copy_constructible_v<Graph> && !std::is_copy_assignable_v<Graph>);
static_assert(std::is_nothrow_move_constructible_v<Graph> && std::is_nothrow_move_assignable_v<Graph>);
static_assert(std::is_nothrow_destructible_v<Graph> && std::is_nothrow_default_constructible_v<Graph>);
static_assert(!std::is_convertible_v<const Context&, Graph> && !std::is_convertible_v<Graph, bool>);
static_assert(sizeof(Graph) <= 40);
static_assert(!std::is_copy_constructible_v<GraphExec> && !std::is_copy_assignable_v<GraphExec>);
static_assert(std::is_nothrow_move_constructible_v<GraphExec> &&
              std::is_nothrow_move_assignable_v<GraphExec>);
static_assert(std::is_nothrow_destructible_v<GraphExec> && !std::is_convertible_v<GraphExec, bool>);
static_assert(std::is_nothrow_default_constructible_v<GraphExec>);
static_assert(sizeof(GraphExec) <= 64);
static_assert(noexcept(std::declval<Graph&>().release()) && noexcept(std::declval<GraphExec&>().release()));
static_assert(sizeof(EventRecordNode) == sizeof(CUgraphNode) && sizeof(EventWaitNode) == sizeof(CUgraphNode));
static_assert(!std::is_convertible_v<CUgraphNode, EventRecordNode> &&
              !std::is_convertible_v<EventWaitNode, EventRecordNode>);

TEST_CASE_METHOD(RecordingFixture, "a refused instantiation says what a graph cannot have") {
  const Graph graph = Graph::borrow(context, graph_handle(1));
  recording.fail_next("cuGraphInstantiateWithFlags", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>([&] { static_cast<void>(graph.instantiate()); }),
             ContainsSubstring("bodies of conditional nodes"));
  recording.fail_next("cuGraphInstantiateWithFlags", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_WITH(graph.instantiate(), !ContainsSubstring("conditional"));
}

TEST_CASE_METHOD(RecordingFixture, "a graph needs a current context only to be instantiated") {
  const DriverEvent event = timed();
  recording.calls();
  {
    Graph graph(context);
    const EventRecordNode record = graph.add_record(event);
    graph.add_wait(event, {record.native_handle()});
    CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuGraphCreate", nullptr},
                                                               {"cuGraphAddEventRecordNode", nullptr},
                                                               {"cuGraphAddEventWaitNode", nullptr}});
    const GraphExec exec = graph.instantiate();
    CHECK(recording.calls_with_contexts() ==
          std::vector<Call>{{"cuCtxGetCurrent", nullptr},
                            {"cuCtxGetId", nullptr},
                            {"cuCtxPushCurrent", nullptr},
                            {"cuGraphInstantiateWithFlags", context_handle(1)},
                            {"cuCtxPopCurrent", context_handle(1)}});
  }
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuCtxGetId", nullptr},
                                                             {"cuGraphExecDestroy", nullptr},
                                                             {"cuGraphDestroy", nullptr}});
}

TEST_CASE_METHOD(RecordingFixture, "a launch makes one call, in the graph's context for a default stream") {
  GraphExec exec = GraphExec::borrow(context, exec_handle(1));
  exec.launch(stream);
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuGraphLaunch", nullptr}});
  for (CUstream const standard : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    exec.launch(standard);
    const std::vector<Call> calls = recording.calls_with_contexts();
    REQUIRE(calls.size() == 5);
    CHECK(calls[3] == Call{"cuGraphLaunch", context_handle(1)});
  }
}

TEST_CASE_METHOD(RecordingFixture, "reading and setting a node's event make one call each") {
  const DriverEvent first = timed(), second = timed();
  Graph graph(context);
  const EventRecordNode record = graph.add_record(first);
  const EventWaitNode wait = graph.add_wait(first);
  CHECK(record == EventRecordNode(record.native_handle()));
  recording.calls();
  CHECK(graph.event(record) == first.native_handle());
  CHECK(graph.event(wait) == first.native_handle());
  graph.set_event(record, second);
  graph.set_event(wait, second);
  CHECK(graph.event(record) == second.native_handle());
  CHECK(graph.event(wait) == second.native_handle());
  CHECK(recording.calls() == Names{"cuGraphEventRecordNodeGetEvent", "cuGraphEventWaitNodeGetEvent",
                                   "cuGraphEventRecordNodeSetEvent", "cuGraphEventWaitNodeSetEvent",
                                   "cuGraphEventRecordNodeGetEvent", "cuGraphEventWaitNodeGetEvent"});

  GraphExec exec = GraphExec::borrow(context, exec_handle(1));
  exec.set_event(record, first);
  exec.set_event(wait, first);
  CHECK(recording.calls() == Names{"cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"});
}

TEST_CASE_METHOD(RecordingFixture, "event_nodes returns all record and wait nodes and no others") {
  const Graph graph = Graph::borrow(context, graph_handle(1));
  CHECK(graph.event_nodes().records.empty());
  CHECK(recording.calls() == Names{"cuGraphGetNodes"}); // without nodes, no other query is made

  recording.graph_nodes({CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                         CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_MEMCPY,
                         CU_GRAPH_NODE_TYPE_EVENT_RECORD});
  const Graph::EventNodes found = graph.event_nodes();
  CHECK(found.records == std::vector{EventRecordNode(node_handle(1)), EventRecordNode(node_handle(4))});
  CHECK(found.waits == std::vector{EventWaitNode(node_handle(2))});
}

TEST_CASE_METHOD(RecordingFixture, "the node of an event is found if there is exactly one") {
  const DriverEvent event = timed(), other = timed();
  const Graph graph = Graph::borrow(context, graph_handle(1));
  recording.graph_nodes({CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                         CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_WAIT_EVENT});
  Graph settable = Graph::borrow(context, graph_handle(1));
  settable.set_event(EventRecordNode(node_handle(0)), other);
  settable.set_event(EventRecordNode(node_handle(1)), event);
  settable.set_event(EventWaitNode(node_handle(2)), event);
  settable.set_event(EventWaitNode(node_handle(3)), other);
  CHECK(graph.record_node(event) == EventRecordNode(node_handle(1)));
  CHECK(graph.wait_node(event) == EventWaitNode(node_handle(2)));

  const DriverEvent absent = timed();
  CHECK_THAT(refusal<NotFound>([&] { graph.record_node(absent); }), ContainsSubstring("no node"));
  CHECK_THAT(refusal<NotFound>([&] { graph.wait_node(absent); }), ContainsSubstring("no node"));
  settable.set_event(EventRecordNode(node_handle(0)), event);
  settable.set_event(EventWaitNode(node_handle(3)), event);
  CHECK_THAT(refusal<InvalidValue>([&] { graph.record_node(event); }), ContainsSubstring("several nodes"));
  CHECK_THAT(refusal<InvalidValue>([&] { graph.wait_node(event); }), ContainsSubstring("several nodes"));
  recording.calls();
  refusal<EmptyEvent>([&] { graph.record_node(DriverEvent()); });
  refusal<EmptyEvent>([&] { graph.wait_node(DriverEvent()); });
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "an empty event never reaches a driver call") {
  Graph graph(context);
  GraphExec exec = GraphExec::borrow(context, exec_handle(1));
  const EventRecordNode record(node_handle(0));
  const EventWaitNode wait(node_handle(0));
  const DriverEvent empty;
  recording.calls();
  refusal<EmptyEvent>([&] { graph.add_record(empty); });
  refusal<EmptyEvent>([&] { graph.add_wait(empty); });
  refusal<EmptyEvent>([&] { graph.set_event(record, empty); });
  refusal<EmptyEvent>([&] { graph.set_event(wait, empty); });
  refusal<EmptyEvent>([&] { graph.retain(DriverEvent()); });
  refusal<EmptyEvent>([&] { exec.set_event(record, empty); });
  refusal<EmptyEvent>([&] { exec.set_event(wait, empty); });
  refusal<EmptyEvent>([&] { static_cast<void>(exec.set_event(record, DriverEvent())); });
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "an event of one driver never reaches the graph of another") {
  Graph graph(context);
  GraphExec exec = GraphExec::borrow(context, exec_handle(1));
  const Context elsewhere = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  recording.calls();
  DriverEvent foreign = DriverEvent::borrow(elsewhere, event_handle(1), EventFlags::none);
  const EventRecordNode record(node_handle(0));
  refusal<ContextMismatch>([&] { graph.add_record(foreign); });
  refusal<ContextMismatch>([&] { graph.set_event(record, foreign); });
  refusal<ContextMismatch>([&] { graph.retain(std::move(foreign)); });
  CHECK_THAT(refusal<ContextMismatch>([&] { exec.set_event(record, foreign); }),
             ContainsSubstring("different drivers"));
  CHECK(foreign);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture,
                 "a graph keeps an event until its user object ends, and that end makes no driver call") {
  DriverEvent event = timed();
  Graph graph(context);
  recording.calls();
  graph.retain(std::move(event));
  CHECK_FALSE(event);
  CHECK(recording.calls() == Names{"cuUserObjectCreate", "cuGraphRetainUserObject"});
  CHECK(RecordingDriver::live_events() == events_before + 1);

  recording.end_user_objects(); // the driver's thread must make no driver call here
  CHECK(recording.calls().empty());
  CHECK(destroy_retired() == 1);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuEventDestroy"});
  CHECK(destroy_retired() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "the end of a user object drops no context") {
  const long contexts = RecordingDriver::live_contexts();
  {
    const Context owner = Context::primary(0, driver);
    Graph graph = Graph::borrow(owner, graph_handle(1));
    graph.retain(DriverEvent(owner));
  }
  recording.calls();
  recording.end_user_objects();
  CHECK(RecordingDriver::live_contexts() == contexts + 1);
  CHECK(recording.calls().empty());
  CHECK(destroy_retired() == 1);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuEventDestroy", "cuDevicePrimaryCtxRelease"});
  CHECK(RecordingDriver::live_contexts() == contexts);
}

TEST_CASE_METHOD(RecordingFixture, "the caller keeps the event if retain fails") {
  DriverEvent event = timed();
  CUevent const handle = event.native_handle();
  Graph graph(context);
  recording.calls();
  for (const char* const call : {"cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_THAT(refusal<OutOfMemory>([&] { graph.retain(std::move(event)); }), ContainsSubstring(call));
    CHECK(event.native_handle() == handle);
    CHECK(event.flags() == EventFlags::timing);
  }
  CHECK(recording.calls() ==
        Names{"cuUserObjectCreate", "cuUserObjectCreate", "cuGraphRetainUserObject", "cuUserObjectRelease"});
  CHECK(destroy_retired() == 0);
  event.record(stream);
}

TEST_CASE_METHOD(RecordingFixture, "an exec keeps the events it is given and returns the previous ones") {
  const EventRecordNode record(node_handle(1));
  const EventWaitNode wait(node_handle(2));
  {
    GraphExec exec = Graph::borrow(context, graph_handle(1)).instantiate();
    DriverEvent first = timed(), second = timed();
    CUevent const handle = first.native_handle();
    CHECK_FALSE(exec.set_event(record, std::move(first)));
    CHECK_FALSE(exec.set_event(wait, DriverEvent(context)));
    CHECK_FALSE(first);

    recording.fail_next("cuGraphExecEventRecordNodeSetEvent", CUDA_ERROR_INVALID_VALUE);
    refusal<InvalidValue>([&] { static_cast<void>(exec.set_event(record, std::move(second))); });
    CHECK(second);
    const DriverEvent before = exec.set_event(record, std::move(second));
    CHECK(before.native_handle() == handle);
    CHECK(RecordingDriver::live_events() == events_before + 3);

    GraphExec moved = std::move(exec);
    CHECK_FALSE(exec);
    recording.calls();
    exec = std::move(moved);
    CHECK(recording.calls().empty());
  }
  // The exec is destroyed first, so the events outlive it.
  const Names calls = recording.calls();
  CHECK(calls == Names{"cuCtxGetId", "cuEventDestroy", "cuCtxGetId", "cuGraphExecDestroy", "cuCtxGetId",
                       "cuEventDestroy", "cuCtxGetId", "cuEventDestroy"});
}

TEST_CASE_METHOD(RecordingFixture, "the error for a refused event says which context or node it was for") {
  GraphExec exec = GraphExec::borrow(context, exec_handle(1));
  const DriverEvent event = timed();
  recording.fail_next("cuGraphExecEventRecordNodeSetEvent", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>([&] { exec.set_event(EventRecordNode(node_handle(1)), event); }),
             ContainsSubstring("different context") && ContainsSubstring("this graph"));
  recording.fail_next("cuGraphExecEventWaitNodeSetEvent", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>([&] { exec.set_event(EventWaitNode(node_handle(1)), event); }),
             ContainsSubstring("different context") && ContainsSubstring("this graph"));
}

TEST_CASE_METHOD(RecordingFixture, "move and release leave a graph or exec empty, and calls on it throw") {
  Graph graph(context);
  CUgraph const handle = graph.native_handle();
  Graph moved = std::move(graph);
  CHECK_FALSE(graph);
  CHECK_FALSE(graph.context());
  CHECK(moved.native_handle() == handle);
  CHECK(moved.context() == context);
  recording.calls();
  const DriverEvent event = DriverEvent::borrow(context, event_handle(1), EventFlags::none);
  const EventRecordNode record(node_handle(0));
  const EventWaitNode wait(node_handle(0));
  const std::vector<std::pair<const char*, std::function<void()>>> uses{
      {"cuGraphAddEventRecordNode", [&] { graph.add_record(event); }},
      {"cuGraphAddEventWaitNode", [&] { graph.add_wait(event); }},
      {"cuGraphEventRecordNodeGetEvent", [&] { graph.event(record); }},
      {"cuGraphEventWaitNodeGetEvent", [&] { graph.event(wait); }},
      {"cuGraphEventRecordNodeSetEvent", [&] { graph.set_event(record, event); }},
      {"cuGraphEventWaitNodeSetEvent", [&] { graph.set_event(wait, event); }},
      {"cuGraphGetNodes", [&] { graph.event_nodes(); }},
      {"Graph::record_node", [&] { graph.record_node(event); }},
      {"Graph::wait_node", [&] { graph.wait_node(event); }},
      {"cuUserObjectCreate", [&] { graph.retain(DriverEvent()); }},
      {"cuGraphInstantiateWithFlags", [&] { static_cast<void>(graph.instantiate()); }}};
  for (const auto& [call, use] : uses)
    CHECK_THAT(refusal<InvalidHandle>(use), StartsWith(call) && ContainsSubstring("the graph is empty"));
  GraphExec left = GraphExec::borrow(context, exec_handle(1)), released = std::move(left);
  CHECK_FALSE(left.context());
  CHECK(released.context() == context);
  static_cast<void>(released.release());
  CHECK_FALSE(released.context());
  const std::vector<std::pair<const char*, std::function<void()>>> launches{
      {"cuGraphLaunch", [&] { released.launch(stream); }},
      {"cuGraphLaunch", [&] { released.launch(CU_STREAM_LEGACY); }},
      {"cuGraphExecEventRecordNodeSetEvent", [&] { released.set_event(record, event); }},
      {"cuGraphExecEventWaitNodeSetEvent", [&] { released.set_event(wait, event); }}};
  for (const auto& [call, use] : launches)
    CHECK_THAT(refusal<InvalidHandle>(use), StartsWith(call) && ContainsSubstring("the GraphExec is empty"));
  CHECK(recording.calls().empty());

  CHECK(moved.release() == handle);
  CHECK_FALSE(moved);
  CHECK_FALSE(moved.context());
  CHECK(RecordingDriver::live_graphs() == graphs_before + 1);
  graph = Graph::from_native_handle(context, handle);
  Graph& same = graph;
  graph = std::move(same);
  CHECK(graph.native_handle() == handle);

  GraphExec exec = graph.instantiate();
  CUevent const kept = exec.context() ? DriverEvent(context).release() : nullptr;
  static_cast<void>(exec.set_event(EventRecordNode(node_handle(1)),
                                   DriverEvent::from_native_handle(context, kept, EventFlags::none)));
  CUgraphExec const raw = exec.release();
  CHECK_FALSE(exec);
  CHECK(RecordingDriver::live_events() == events_before + 1); // handed over with the exec
  refusal<InvalidHandle>([&] { exec.launch(stream); });
  CHECK(GraphExec::from_native_handle(context, raw).native_handle() == raw);
  CHECK(DriverEvent::from_native_handle(context, kept, EventFlags::none));

  CHECK_THROWS_AS(Graph::from_native_handle(context, nullptr), InvalidHandle);
  CHECK_THROWS_AS(Graph::borrow(context, nullptr), InvalidHandle);
  CHECK_THROWS_AS(GraphExec::from_native_handle(context, nullptr), InvalidHandle);
  CHECK_THROWS_AS(GraphExec::borrow(context, nullptr), InvalidHandle);
}

TEST_CASE_METHOD(RecordingFixture, "a swap exchanges ownership, contexts and kept events") {
  const Context other = Context::borrow(context_handle(2), driver);
  {
    Graph owned(context), borrowed = Graph::borrow(other, graph_handle(2));
    CUgraph const handle = owned.native_handle();
    owned.swap(borrowed);
    CHECK(owned.native_handle() == graph_handle(2));
    CHECK(owned.context() == other);
    CHECK(borrowed.native_handle() == handle);
    CHECK(borrowed.context() == context);
    recording.calls();
    owned = Graph::borrow(other, graph_handle(3)); // what was there is only borrowed now
    CHECK(recording.calls().empty());
    borrowed = Graph::borrow(other, graph_handle(3));
    CHECK(recording.calls() == Names{"cuGraphDestroy"});
  }
  {
    GraphExec owned = Graph::borrow(context, graph_handle(1)).instantiate();
    GraphExec borrowed = GraphExec::borrow(other, exec_handle(2));
    static_cast<void>(owned.set_event(EventRecordNode(node_handle(1)), DriverEvent(context)));
    CUgraphExec const handle = owned.native_handle();
    owned.swap(borrowed);
    CHECK(owned.native_handle() == exec_handle(2));
    CHECK(owned.context() == other);
    CHECK(borrowed.native_handle() == handle);
    CHECK(borrowed.context() == context);
    recording.calls();
    owned = GraphExec::borrow(other, exec_handle(3));
    CHECK(recording.calls().empty()); // the event went along
    borrowed = GraphExec::borrow(other, exec_handle(3));
    CHECK(recording.calls() == Names{"cuCtxGetId", "cuGraphExecDestroy", "cuCtxGetId", "cuEventDestroy"});
  }
}

TEST_CASE_METHOD(RecordingFixture, "each node of an exec keeps its own event") {
  GraphExec exec = Graph::borrow(context, graph_handle(1)).instantiate();
  std::vector<CUevent> handles;
  for (std::uintptr_t node = 1; node <= 4; ++node) {
    DriverEvent event(context);
    handles.push_back(event.native_handle());
    CHECK_FALSE(exec.set_event(EventRecordNode(node_handle(node)), std::move(event)));
  }
  for (std::uintptr_t node = 4; node >= 1; --node) {
    const DriverEvent before = exec.set_event(EventRecordNode(node_handle(node)), DriverEvent(context));
    CHECK(before.native_handle() == handles[node - 1]);
  }
  CHECK(RecordingDriver::live_events() == events_before + 4);
}

TEST_CASE_METHOD(RecordingFixture, "a borrowed graph or exec is never destroyed") {
  {
    Graph graph = Graph::borrow(context, graph_handle(1));
    const Graph moved = std::move(graph);
    GraphExec exec = GraphExec::borrow(context, exec_handle(1));
    const GraphExec moved_exec = std::move(exec);
  }
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "an exec is not destroyed after its context has ended") {
  HookedErrors hooked;
  {
    const GraphExec exec = GraphExec::from_native_handle(context, exec_handle(1));
    recording.reset_contexts();
  }
  CHECK(recording.calls() == Names{"cuCtxGetId"});
  CHECK(hooked.take() == CUDA_SUCCESS);
  const Context existing = Context::borrow(context.native_handle(), driver);
  Graph graph(existing);
  {
    const GraphExec exec = graph.instantiate();
    recording.calls();
    recording.fail_next("cuCtxGetId", CUDA_ERROR_UNKNOWN);
  }
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuGraphExecDestroy"});
  CHECK(hooked.take() == CUDA_ERROR_UNKNOWN);
}

TEST_CASE_METHOD(RecordingFixture, "a destructor that fails reports to the error hook") {
  HookedErrors hooked;
  recording.fail_next("cuGraphDestroy", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  { const Graph graph(context); }
  CHECK(hooked.take() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  recording.fail_next("cuGraphExecDestroy", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  { const GraphExec exec = GraphExec::from_native_handle(context, exec_handle(1)); }
  CHECK(hooked.take() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  driver.table().cuGraphDestroy_v10000(nullptr); // the one that the stubs still count
}
