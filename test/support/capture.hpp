// SPDX-License-Identifier: MIT
// Stream capture through plain driver calls, for tests of the layers below cuevent's capture.
#pragma once

#include "driver_under_test.hpp"

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

} // namespace test
