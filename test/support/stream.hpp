// SPDX-License-Identifier: MIT
// Streams for tests.
#pragma once

#include "driver_under_test.hpp"
#include "fixture.hpp"

#include <cuevent/context.hpp>

#include <catch2/catch_test_macros.hpp>

namespace test {

/// A stream of `context`, destroyed with this object. Threads may create streams at the same time.
/// Catch2 assertions are not thread-safe, so an assertion is made only if the driver refuses.
class Stream {
public:
  explicit Stream(const cuevent::Context& context, unsigned flags = CU_STREAM_NON_BLOCKING) {
    const cuevent::ContextGuard guard(context);
    const CUresult created = call<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000)(&stream_, flags);
    if (created != CUDA_SUCCESS) FAIL("cuStreamCreate " << created);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    const CUresult destroyed = call<PFN_cuStreamDestroy_v4000>("cuStreamDestroy", 4000)(stream_);
    if (destroyed != CUDA_SUCCESS) FAIL_CHECK("cuStreamDestroy " << destroyed);
  }

  operator CUstream() const noexcept { return stream_; }

private:
  CUstream stream_ = nullptr;
};

/// For tests with a stream of the context.
struct StreamFixture : Fixture {
  const Stream stream{context};
};

} // namespace test
