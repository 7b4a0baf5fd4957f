// SPDX-License-Identifier: MIT
// Stream capture and graphs through plain driver calls, for tests of the layers below cuevent's capture.
#pragma once

#include "driver_under_test.hpp"

#include <cuevent/context.hpp>
#include <cuevent/graph_exec.hpp>

#include <catch2/catch_test_macros.hpp>

namespace test {

/// A capture. The constructor begins it on `stream`; end() or the destructor ends it.
class Capture {
public:
  explicit Capture(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
      : stream_(stream) {
    REQUIRE(call<PFN_cuStreamBeginCapture_v10010>("cuStreamBeginCapture", 10010)(stream, mode) ==
            CUDA_SUCCESS);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (!ended_) end();
    if (graph_ != nullptr) call<PFN_cuGraphDestroy_v10000>("cuGraphDestroy", 10000)(graph_);
  }

  CUstreamCaptureStatus status() const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    REQUIRE(driver().table().cuStreamIsCapturing_v10000(stream_, &status) == CUDA_SUCCESS);
    return status;
  }
  CUresult end() {
    ended_ = true;
    return call<PFN_cuStreamEndCapture_v10000>("cuStreamEndCapture", 10000)(stream_, &graph_);
  }
  CUgraph graph() const noexcept { return graph_; }

private:
  CUstream stream_;
  CUgraph graph_ = nullptr;
  bool ended_ = false;
};

/// A graph that can be launched. Its events must outlive it.
class GraphExec {
public:
  GraphExec(const cuevent::Context& context, CUgraph graph) {
    const cuevent::ContextGuard guard(context); // instantiation needs a current context
    REQUIRE(call<PFN_cuGraphInstantiateWithFlags_v11040>("cuGraphInstantiateWithFlags",
                                                         11040)(&exec_, graph, 0) == CUDA_SUCCESS);
  }
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;
  ~GraphExec() {
    const CUresult destroyed = call<PFN_cuGraphExecDestroy_v10000>("cuGraphExecDestroy", 10000)(exec_);
    CHECK(destroyed == CUDA_SUCCESS);
  }

  void launch(CUstream stream) const {
    REQUIRE(call<PFN_cuGraphLaunch_v10000>("cuGraphLaunch", 10000)(exec_, stream) == CUDA_SUCCESS);
  }

private:
  CUgraphExec exec_ = nullptr;
};

} // namespace test
