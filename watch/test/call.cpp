// SPDX-License-Identifier: MIT
// A record becomes a call by the roles of its function's parameters.
#include "protocol/words.hpp"
#include "written_calls.hpp"

#include <algorithm>
#include <set>
#include <utility>

using watch::Call;
using watch::Field;
using watch::Work;

TEST_CASE("no two words of a record are the same field", "[watch][call]") {
  for (const watch::EntryData& entry : watch::entry_data) {
    INFO(entry.symbol);
    std::set<Field> fields;
    for (const Field field : entry.words)
      CHECK((field == Field::none || fields.insert(field).second));
    // The place of the time.
    if (can_block(entry.verb)) CHECK(entry.words[3] == Field::none);
  }
}

TEST_CASE("work has a stream, and so has every other submission", "[watch][call]") {
  for (const watch::EntryData& entry : watch::entry_data) {
    INFO(entry.symbol);
    const auto has = [&](Field field) {
      return std::find(entry.words.begin(), entry.words.end(), field) != entry.words.end();
    };
    if (watch::is_work(entry.verb)) CHECK(entry.words[0] == Field::stream);
    if (submits_work(entry.verb)) {
      CHECK(has(Field::stream));
      CHECK(entry.work != Work::none);
    }
  }
}

TEST_CASE("arguments keep their meaning, wherever they stand", "[watch][call]") {
  const Call made = call_of("cuCtxCreate_v3", {0x40, 7, 2, 1});
  CHECK(made.named_context == 0x40);
  CHECK(made.flags == 2);
  CHECK(made.device == 1);
  CHECK(call_of("cuCtxCreate", {0x40, 2, 1}).device == 1);
  const Call green = call_of("cuGreenCtxStreamCreate", {0x10, 0x40, 1, 5});
  CHECK(green.stream_handle == 0x10);
  CHECK(green.named_context == 0x40);
  CHECK(green.flags == 1);
  const Call cloned = call_of("cuGraphClone", {0x20, 0x30});
  CHECK(cloned.made_graph == 0x20);
  CHECK(cloned.graph == 0x30);
  CHECK(call_of("cuCtxDetach", {0x40}).named_context == 0x40);
  CHECK(call_of("cuGraphExecGetId", {0x50}).exec == 0x50);
  // The contexts of memory are not what the copy waits for.
  CHECK(call_of("cuMemcpyPeer", {0x41, 0x42}, 0x40).named_context == 0x40);
}

TEST_CASE("the node where an instantiation or an update went wrong is no node of the call", "[watch][call]") {
  for (const char* const function : {"cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphExecUpdate"}) {
    INFO(function);
    const Call call = call_of(function, {0x50, 0x20, 0x77});
    CHECK(call.exec == 0x50);
    CHECK(call.graph == 0x20);
    CHECK(call.node == 0);
  }
}

TEST_CASE("functions for one kind of event node tell the kind", "[watch][call]") {
  for (const char* const function :
       {"cuGraphAddEventWaitNode", "cuGraphEventWaitNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"})
    CHECK(call_of(function, {}).node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  for (const char* const function :
       {"cuGraphAddEventRecordNode", "cuGraphEventRecordNodeSetEvent", "cuGraphExecEventRecordNodeSetEvent"})
    CHECK(call_of(function, {}).node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  for (const char* const function : {"cuGraphAddNode", "cuGraphAddNode_v2", "cuGraphAddNode_v3"}) {
    const Call call = call_of(function, {0x30, 0x20, 0x60, CU_GRAPH_NODE_TYPE_WAIT_EVENT});
    CHECK(call.event == 0x60);
    CHECK(call.node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    CHECK(call_of(function, {0x30, 0x20}).node_type == 0); // without parameters
  }
  CHECK(call_of("cuGraphNodeSetParams_v2", {0x30, 0x60, CU_GRAPH_NODE_TYPE_EVENT_RECORD}).event == 0x60);
}

TEST_CASE("the kind of work follows from the function", "[watch][call]") {
  const std::pair<const char*, Work> expected[] = {{"cuLaunchKernel", Work::kernel},
                                                   {"cuMemcpyAsync", Work::copy},
                                                   {"cuMemsetD2D32_v2", Work::fill},
                                                   {"cuLaunchHostFunc_v2", Work::host},
                                                   {"cuStreamBatchMemOp", Work::values},
                                                   {"cuWaitExternalSemaphoresAsync", Work::semaphores},
                                                   {"cuGraphLaunch", Work::graph},
                                                   {"cuGraphAddEmptyNode", Work::empty},
                                                   {"cuMemAllocAsync", Work::allocation},
                                                   {"cuMemFreeAsync", Work::free},
                                                   {"cuGraphNodeSetEnabled", Work::any},
                                                   {"cuEventRecord", Work::none},
                                                   {"cuGraphAddMemsetNode", Work::fill},
                                                   {"cuGraphExecHostNodeSetParams", Work::host},
                                                   {"cuGraphMemcpyNodeSetParams", Work::copy}};
  for (const auto& [function, work] : expected) {
    INFO(function);
    CHECK(call_of(function, {}).work() == work);
  }
}

TEST_CASE("a launch that names no stream is on the null stream", "[watch][call]") {
  watch::CallData call{};
  const auto function = reinterpret_cast<CUfunction>(std::uintptr_t{0x90});
  watch::add_words_of_work<false>(call, function, 3, 4); // cuLaunchGrid
  CHECK(call.count == 2);
  CHECK(call.words[0] == reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY));
  CHECK(call.words[1] == 0x90);
}

TEST_CASE("a capture of a graphics API is relaxed, and has no graph", "[watch][call]") {
  CHECK(call_of("cuStreamBeginCapture", {0x10}).mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  watch::World world;
  const Call begin = call_of("cuStreamBeginCaptureToCig", {0x10});
  CHECK(begin.mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  world.see(begin);
  CHECK(world.is_capturing(begin.stream()));
  world.see(call_of("cuStreamEndCaptureToCig", {0x10}));
  CHECK_FALSE(world.is_capturing(begin.stream()));
  CHECK(world.graph(0) == nullptr);
}
