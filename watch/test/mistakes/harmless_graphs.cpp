// SPDX-License-Identifier: MIT
// What real programs do with captures and graphs, and is right.
#include "../driver_calls.hpp"

namespace {

/// A captured graph of work on `gpu.a` that records `event` for the outside.
CUgraph graph_that_records(Gpu& gpu, CUevent event) {
  begin(gpu.a);
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(event, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  return end(gpu.a);
}

void launch_and_ask(Gpu& gpu, CUgraphExec exec, CUevent event) {
  for (int i = 0; i < 3; ++i) {
    launch(exec, gpu.a);
    expect(cuEventSynchronize(event));
  }
}

void clean_exec(CUgraphExec exec, CUstream used_by) {
  finish(used_by);
  expect(cuGraphExecDestroy(exec));
}

HARMLESS(fork_and_join, "a capture forks to a second stream and joins it") {
  CUevent forked = gpu.event(), joined = gpu.event();
  begin(gpu.a);
  for (int i = 0; i < 3; ++i) { // the events are recorded again in the same capture
    gpu.work(gpu.a);
    order(gpu.a, forked, gpu.b);
    gpu.work(gpu.b);
    order(gpu.b, joined, gpu.a);
  }
  CUgraphExec exec = exec_of(end(gpu.a));
  launch(exec, gpu.a);
  clean(gpu, {forked, joined}, exec);
}

HARMLESS(fork_without_work, "a forked stream that did no work needs no join") {
  CUevent forked = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  order(gpu.a, forked, gpu.b);
  CUgraphExec exec = exec_of(end(gpu.a));
  launch(exec, gpu.a);
  clean(gpu, {forked}, exec);
}

HARMLESS(event_of_a_capture_is_recorded_again, "a record outside makes an event of a capture usable again") {
  CUevent both = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  order(gpu.a, both, gpu.b);
  CUgraphExec exec = exec_of(end(gpu.a));
  launch(exec, gpu.a);
  record(both, gpu.a);
  expect(cuEventSynchronize(both));
  clean(gpu, {both}, exec);
}

HARMLESS(watchdog_in_relaxed_mode, "a thread makes itself relaxed before it polls during a global capture") {
  CUevent done = gpu.event();
  gpu.work(gpu.b);
  record(done, gpu.b);
  begin(gpu.a);
  gpu.work(gpu.a);
  on_another_thread([&] {
    CUstreamCaptureMode mode = relaxed;
    expect(cuThreadExchangeStreamCaptureMode(&mode));
    cuEventQuery(done);
    expect(cuThreadExchangeStreamCaptureMode(&mode));
  });
  expect(cuGraphDestroy(end(gpu.a)));
  clean(gpu, {done});
}

HARMLESS(watchdog_beside_a_thread_local_capture,
         "a thread-local capture does not mind what other threads ask") {
  CUevent done = gpu.event();
  record(done, gpu.b);
  begin(gpu.a, thread_local_mode);
  gpu.work(gpu.a);
  on_another_thread([&] { expect(cuEventSynchronize(done)); });
  expect(cuGraphDestroy(end(gpu.a)));
  clean(gpu, {done});
}

HARMLESS(polls_in_a_relaxed_capture, "the capturing thread asks for events outside of its relaxed capture") {
  CUevent done = gpu.event();
  record(done, gpu.b);
  begin(gpu.a, relaxed);
  gpu.work(gpu.a);
  expect(cuEventSynchronize(done));
  finish(gpu.b);
  expect(cuGraphDestroy(end(gpu.a)));
  clean(gpu, {done});
}

HARMLESS(ends_elsewhere_in_relaxed_mode, "a relaxed capture may be ended by another thread") {
  begin(gpu.a, relaxed);
  gpu.work(gpu.a);
  on_another_thread([&] { expect(cuGraphDestroy(end(gpu.a))); });
  clean(gpu);
}

HARMLESS(other_threads_work_during_a_capture, "other threads submit work to their own streams") {
  CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  on_another_thread([&] {
    gpu.work(gpu.b);
    record(done, gpu.b);
  });
  expect(cuGraphDestroy(end(gpu.a)));
  expect(cuEventSynchronize(done));
  clean(gpu, {done});
}

HARMLESS(events_made_in_a_capture, "events are created and destroyed in a capture") {
  begin(gpu.a);
  CUevent forked = gpu.event(), joined = gpu.event();
  order(gpu.a, forked, gpu.b);
  gpu.work(gpu.b);
  order(gpu.b, joined, gpu.a);
  destroy(forked), destroy(joined);
  expect(cuGraphDestroy(end(gpu.a)));
  clean(gpu);
}

HARMLESS(legacy_next_to_a_non_blocking_capture,
         "the legacy stream does not touch the capture of a non-blocking one") {
  CUevent other = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  gpu.work(nullptr);
  record(other, nullptr);
  expect(cuGraphDestroy(end(gpu.a)));
  expect(cuEventSynchronize(other));
  clean(gpu, {other});
}

HARMLESS(two_captures_at_once, "two threads capture their own streams") {
  begin(gpu.a, thread_local_mode);
  on_another_thread([&] {
    begin(gpu.b, thread_local_mode);
    gpu.work(gpu.b);
    expect(cuGraphDestroy(end(gpu.b)));
  });
  gpu.work(gpu.a);
  expect(cuGraphDestroy(end(gpu.a)));
  clean(gpu);
}

HARMLESS(external_wait, "a graph waits for an event that is recorded before each launch") {
  CUevent ready = gpu.event();
  begin(gpu.a);
  expect(cuStreamWaitEvent(gpu.a, ready, CU_EVENT_WAIT_EXTERNAL));
  gpu.work(gpu.a);
  CUgraphExec exec = exec_of(end(gpu.a));
  for (int i = 0; i < 3; ++i) {
    gpu.work(gpu.b);
    record(ready, gpu.b);
    launch(exec, gpu.a);
  }
  clean(gpu, {ready}, exec);
}

HARMLESS(times_part_of_a_graph, "two timed events in a graph are read after each launch") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  begin(gpu.a);
  expect(cuEventRecordWithFlags(start, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(stop, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  CUgraphExec exec = exec_of(end(gpu.a));
  for (int i = 0; i < 3; ++i) {
    launch(exec, gpu.a);
    expect(cuEventSynchronize(stop));
    expect(time_between(start, stop));
  }
  clean(gpu, {start, stop}, exec);
}

HARMLESS(clone_outlives_its_graph, "the clone of a graph is launched, and the event destroyed after it") {
  CUevent done = gpu.event();
  CUgraph graph = graph_that_records(gpu, done), clone = nullptr;
  expect(cuGraphClone(&clone, graph));
  expect(cuGraphDestroy(graph));
  CUgraphExec exec = exec_of(clone);
  launch_and_ask(gpu, exec, done);
  clean(gpu, {done}, exec);
}

HARMLESS(node_of_a_clone_gets_another_event, "a clone's node refers to another event, so the first may go") {
  CUevent first = gpu.event(), second = gpu.event();
  CUgraphNode node = nullptr, of_clone = nullptr;
  CUgraph graph = graph_of_record(first, &node), clone = nullptr;
  expect(cuGraphClone(&clone, graph));
  expect(cuGraphNodeFindInClone(&of_clone, node, clone));
  expect(cuGraphEventRecordNodeSetEvent(of_clone, second));
  expect(cuGraphDestroy(graph));
  destroy(first);
  CUgraphExec exec = exec_of(clone);
  launch_and_ask(gpu, exec, second);
  clean(gpu, {second}, exec);
}

HARMLESS(exec_gets_another_event, "an exec records another event from now on, so the first may go") {
  CUevent first = gpu.event(), second = gpu.event();
  CUgraphNode node = nullptr;
  CUgraph graph = graph_of_record(first, &node);
  CUgraphExec exec = instantiate(graph);
  launch_and_ask(gpu, exec, first);
  expect(cuGraphExecEventRecordNodeSetEvent(exec, node, second));
  expect(cuGraphDestroy(graph));
  finish(gpu.a);
  destroy(first);
  launch_and_ask(gpu, exec, second);
  clean(gpu, {second}, exec);
}

HARMLESS(node_destroyed_before_its_event, "a graph's node is removed, so its event may be destroyed") {
  CUevent removed = gpu.event(), kept = gpu.event();
  CUgraphNode first = nullptr, second = nullptr;
  CUgraph graph = graph_of_record(removed, &first);
  expect(cuGraphAddEventRecordNode(&second, graph, &first, 1, kept));
  expect(cuGraphDestroyNode(first));
  destroy(removed);
  CUgraphExec exec = exec_of(graph);
  launch_and_ask(gpu, exec, kept);
  clean(gpu, {kept}, exec);
}

HARMLESS(child_graph_with_an_event,
         "a child graph records an event, and the child's own graph is destroyed") {
  CUevent done = gpu.event();
  CUgraph child = graph_that_records(gpu, done), parent = nullptr;
  CUgraphNode node = nullptr;
  expect(cuGraphCreate(&parent, 0));
  expect(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  expect(cuGraphDestroy(child));
  CUgraphExec exec = exec_of(parent);
  launch_and_ask(gpu, exec, done);
  clean(gpu, {done}, exec);
}

HARMLESS(events_go_after_the_graph, "graph, exec and then the event are destroyed") {
  CUevent done = gpu.event();
  CUgraph graph = graph_that_records(gpu, done);
  CUgraphExec exec = instantiate(graph);
  launch_and_ask(gpu, exec, done);
  clean_exec(exec, gpu.a);
  expect(cuGraphDestroy(graph));
  destroy(done);
  clean(gpu);
}

HARMLESS(updates_an_exec, "an exec is updated from a new capture in each step") {
  CUgraphExec exec = nullptr;
  for (int i = 0; i < 4; ++i) {
    CUgraph graph = graph_of_work(gpu, gpu.a);
    if (exec == nullptr) exec = instantiate(graph);
    CUgraphExecUpdateResultInfo info;
    expect(cuGraphExecUpdate(exec, graph, &info));
    expect(cuGraphDestroy(graph));
    launch(exec, gpu.a);
  }
  clean(gpu, {}, exec);
}

HARMLESS(one_graph_for_each_shape, "a server captures one graph for each of five shapes") {
  std::vector<CUgraphExec> execs;
  for (int shape = 1; shape <= 5; ++shape)
    execs.push_back(exec_of(graph_of_work(gpu, gpu.a, shape)));
  for (CUgraphExec each : execs) {
    launch(each, gpu.a);
    clean_exec(each, gpu.a);
  }
  clean(gpu);
}

/// Two empty nodes in a new graph, and everything that can be done with their handles and the graph's.
void use_nodes_and_graph(CUevent event) {
  CUgraphNode nodes[2] = {}, record = nullptr;
  CUgraph graph = graph_of_record(event, &record), child = nullptr, clone = nullptr;
  for (CUgraphNode& each : nodes)
    expect(cuGraphAddEmptyNode(&each, graph, nullptr, 0));
  expect(cuGraphClone(&clone, graph));
  CUgraphNode parent = nullptr;
  expect(cuGraphAddChildGraphNode(&parent, clone, nullptr, 0, graph));
  expect(cuGraphChildGraphNodeGetGraph(parent, &child));
  size_t count = 0;
  for (CUgraph each : {graph, child, clone})
    expect(cuGraphGetNodes(each, nullptr, &count));
  CUgraphNodeType type{};
  for (CUgraphNode each : {nodes[0], nodes[1], record, parent})
    expect(cuGraphNodeGetType(each, &type));
  expect(cuGraphEventRecordNodeSetEvent(record, event));
  expect(cuGraphDestroyNode(nodes[1]));
  expect(cuGraphDestroyNode(nodes[0]));
  expect(cuGraphDestroy(graph));
  expect(cuGraphDestroy(clone));
}

HARMLESS(new_objects_have_old_handles,
         "what a driver makes has the handles of objects of other kinds that are gone", "--order") {
  for (int i = 0; i < 64; ++i) {
    CUevent event = gpu.event(), gone = gpu.event();
    CUgraph graph = graph_of_record(event);
    CUgraphExec exec = instantiate(graph);
    CUstream stream = gpu.stream();
    record(gone, stream);
    wait(stream, gone);
    finish(stream);
    expect(cuGraphDestroy(graph));
    expect(cuGraphExecDestroy(exec));
    expect(cuStreamDestroy(stream));
    destroy(gone);
    use_nodes_and_graph(event);
    destroy(event);
  }
  clean(gpu);
}

HARMLESS(events_end_before_their_graphs,
         "each owner ends its events first, and no launch is in flight or follows", "") {
  const CUevent recorded = gpu.event(), waited = gpu.event(), done = gpu.event();
  record(waited, gpu.b);
  begin(gpu.a);
  expect(cuStreamWaitEvent(gpu.a, waited, CU_EVENT_WAIT_EXTERNAL));
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(recorded, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  const CUgraph graph = end(gpu.a);
  const CUgraphExec first = instantiate(graph), second = instantiate(graph);
  for (int i = 0; i < 3; ++i) {
    launch(first, gpu.a);
    launch(second, gpu.b);
  }
  order(gpu.a, done, gpu.b);
  record(done, gpu.b);
  expect(cuEventSynchronize(done));
  destroy(recorded), destroy(waited), destroy(done);
  expect(cuGraphExecDestroy(first));
  expect(cuGraphExecDestroy(second));
  expect(cuGraphDestroy(graph));
}

HARMLESS(event_of_a_node_that_was_replaced, "the node of an executable graph has got another event", "") {
  const CUevent first = gpu.event(), second = gpu.event();
  CUgraphNode node = nullptr;
  const CUgraph graph = graph_of_record(first, &node);
  const CUgraphExec exec = instantiate(graph);
  launch(exec, gpu.a);
  finish(gpu.a);
  expect(cuGraphExecEventRecordNodeSetEvent(exec, node, second));
  destroy(first);
  launch(exec, gpu.a);
  finish(gpu.a);
}

} // namespace
