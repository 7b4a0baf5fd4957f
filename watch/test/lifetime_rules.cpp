// SPDX-License-Identifier: MIT
// Handles that the driver gives away again to an object of another kind.
#include "written_calls.hpp"

#include <string>

namespace {

constexpr std::uint64_t handle = 0x500, another = 0x100;

/// A process in which `handle` was an executable graph that is gone.
class AfterExec : public WrittenProcess {
public:
  AfterExec() : WrittenProcess(watch::lifetime_rules) {
    see("cuGraphCreate", {another, 0});
    see("cuGraphInstantiateWithFlags", {handle, another});
    see("cuGraphExecDestroy", {handle});
  }
};

} // namespace

TEST_CASE("a node with the handle of a destroyed executable graph is a node", "[lifetime]") {
  for (const char* const call :
       {"cuGraphDestroyNode", "cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams_v2",
        "cuGraphMemcpyNodeSetParams", "cuGraphMemsetNodeSetParams", "cuGraphHostNodeSetParams"}) {
    INFO(call);
    AfterExec process;
    process.see(call, {handle});
    CHECK(process.end() == "");
  }
}

TEST_CASE("a graph with the handle of a destroyed executable graph is a graph", "[lifetime]") {
  for (const char* const call : {"cuGraphAddDependencies", "cuGraphAddDependencies_v2",
                                 "cuGraphRemoveDependencies", "cuGraphRemoveDependencies_v2"}) {
    INFO(call);
    AfterExec process;
    process.see("cuGraphCreate", {handle, 0});
    process.see(call, {handle});
    CHECK(process.end() == "");
  }
}

TEST_CASE("a change of a destroyed executable graph is found", "[lifetime]") {
  for (const char* const call :
       {"cuGraphExecKernelNodeSetParams_v2", "cuGraphExecMemcpyNodeSetParams", "cuGraphNodeSetEnabled",
        "cuGraphExecHostNodeSetParams", "cuGraphExecBatchMemOpNodeSetParams",
        "cuGraphExecExternalSemaphoresSignalNodeSetParams", "cuGraphNodeGetEnabled", "cuGraphExecGetId"}) {
    INFO(call);
    AfterExec process;
    process.see(call, {handle, 0x700}, CUDA_ERROR_INVALID_VALUE);
    CHECK(process.end().starts_with("use-after-destroy"));
  }
}

TEST_CASE("a question about a destroyed graph is found", "[lifetime]") {
  for (const char* const call :
       {"cuGraphGetNodes", "cuGraphGetRootNodes", "cuGraphGetEdges", "cuGraphGetEdges_v2", "cuGraphGetId"}) {
    INFO(call);
    AfterExec process;
    process.see("cuGraphDestroy", {another});
    process.see(call, {another}, CUDA_ERROR_INVALID_VALUE);
    CHECK(process.end().starts_with("use-after-destroy"));
  }
}

TEST_CASE("a change of a destroyed graph's edges is found", "[lifetime]") {
  AfterExec process;
  process.see("cuGraphDestroy", {another});
  process.see("cuGraphAddDependencies_v2", {another}, CUDA_ERROR_INVALID_VALUE);
  CHECK(process.end().starts_with("use-after-destroy"));
}
