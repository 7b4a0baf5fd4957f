// SPDX-License-Identifier: MIT
// What can be captured into the body of a conditional node.
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>

#include <catch2/matchers/catch_matchers.hpp>

#include <chrono>
#include <cudaTypedefs.h>

#if CUDA_VERSION >= 12030

using namespace cuevent;
using namespace test;

namespace {

constexpr int since = 12030;

/// The body of an IF node whose condition is true at each launch.
Graph body_of_new_condition(const Context& context, const Graph& graph) {
  const ContextGuard current(context);
  CUgraphNodeParams node{};
  node.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  node.conditional.type = CU_GRAPH_COND_TYPE_IF;
  node.conditional.size = 1;
  node.conditional.ctx = context.native_handle();
  REQUIRE(test::call<PFN_cuGraphConditionalHandleCreate_v12030>("cuGraphConditionalHandleCreate", 12030)(
              &node.conditional.handle, graph.native_handle(), context.native_handle(), 1,
              CU_GRAPH_COND_ASSIGN_DEFAULT) == CUDA_SUCCESS);
  CUgraphNode added = nullptr;
  REQUIRE(test::call<PFN_cuGraphAddNode_v12030>("cuGraphAddNode", 12030)(
              &added, graph.native_handle(), nullptr, nullptr, 0, &node) == CUDA_SUCCESS);
  return Graph::borrow(context, *node.conditional.phGraph_out);
}

} // namespace

// Not in the sweep of faults: a capture that fails destroys the body, and then uses of its graph crash.
TEST_CASE_METHOD(Fixture, "branches can be captured into the body of a conditional node", "[no-sweep]") {
  test::need(since);
  const Stream stream(context), branch(context);
  DriverEvent forked(context), joined(context), done(context);
  const Graph graph(context);
  Graph body = body_of_new_condition(context, graph);
  CUdeviceptr word = 0;
  {
    const ContextGuard current(context);
    REQUIRE(test::call<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020)(&word, 4) == CUDA_SUCCESS);
  }
  const auto set = test::call<PFN_cuMemsetD32Async_v3020>("cuMemsetD32Async", 3020);
  {
    StreamCapture capture(context, stream, body);
    forked.record(stream);
    forked.wait(branch);
    CHECK(set(word, 7, 1, branch) == CUDA_SUCCESS);
    joined.record(branch);
    joined.wait(stream);
    CHECK(capture.end());
  }
  graph.instantiate().launch(stream);
  done.record(stream);
  CHECK(done.synchronize_for(1min));
  unsigned value = 0;
  const ContextGuard current(context);
  CHECK(test::call<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH", 3020)(&value, word, 4) == CUDA_SUCCESS);
  CHECK(value == 7);
  CHECK(test::call<PFN_cuMemFree_v3020>("cuMemFree", 3020)(word) == CUDA_SUCCESS);
}

TEST_CASE_METHOD(Fixture, "the body of a conditional node cannot record an event", "[no-sweep]") {
  test::need(since);
  const Stream stream(context);
  DriverEvent event(context);
  const Graph graph(context);
  Graph body = body_of_new_condition(context, graph);
  {
    StreamCapture capture(context, stream, body);
    event.record(stream, RecordFlags::external);
    CHECK(capture.end());
  }
  CHECK_THROWS_WITH(graph.instantiate(), ContainsSubstring("bodies of conditional nodes"));
  CHECK_THROWS_AS(graph.instantiate(), InvalidValue);
}

#endif
