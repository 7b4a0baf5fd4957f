// Streams for tests.
#pragma once

#include "driver_under_test.hpp"

#include <cuevent/context.hpp>

#include <catch2/catch_test_macros.hpp>

namespace test {

/// A stream of `context`, destroyed with this.
class Stream {
public:
  explicit Stream(const cuevent::Context& context, unsigned flags = CU_STREAM_NON_BLOCKING) {
    const cuevent::ContextGuard guard(context);
    REQUIRE(call<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000)(&stream_, flags) == CUDA_SUCCESS);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    const CUresult destroyed = call<PFN_cuStreamDestroy_v4000>("cuStreamDestroy", 4000)(stream_);
    CHECK(destroyed == CUDA_SUCCESS);
  }

  operator CUstream() const noexcept { return stream_; }

private:
  CUstream stream_ = nullptr;
};

} // namespace test
