// SPDX-License-Identifier: MIT
// What the tests of a StageTimer share.
#pragma once

#include "fixture.hpp"

#include <cuevent/stage_timer.hpp>

#include <chrono>
#include <cstddef>
#include <optional>

namespace test {

/// Device memory for the work of the tests. Its own calls never fail.
class StageFixture : public Fixture {
public:
  StageFixture() {
    const cuevent::ContextGuard guard(unfailing_);
    REQUIRE(call<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020)(&memory_, bytes) == CUDA_SUCCESS);
  }
  ~StageFixture() {
    const cuevent::ContextGuard guard(unfailing_);
    const CUresult freed = call<PFN_cuMemFree_v3020>("cuMemFree", 3020)(memory_);
    CHECK(freed == CUDA_SUCCESS);
  }

protected:
  static constexpr std::size_t bytes = 16 << 20;

  void work(CUstream stream, std::size_t size = bytes) const {
    const cuevent::ContextGuard guard(unfailing_); // for the default streams
    const auto fill = call<PFN_cuMemsetD8Async_v3020>("cuMemsetD8Async", 3020);
    REQUIRE(fill(memory_, 1, size, stream) == CUDA_SUCCESS);
  }

  /// Lets time pass on the driver's clock. A virtual clock uses no wall time.
  void pass(std::chrono::nanoseconds time) const { driver.table().pause(time.count()); }

  static bool time_is_virtual() {
    void* pause = nullptr;
    CUdriverProcAddressQueryResult status{};
    test::driver().table().get_proc_address("cueventPause", &pause, 12000, 0, &status);
    return pause != nullptr;
  }

  /// A device gives no bound for the time of its work: one stage in a graph took 1.8 us on an H100.
  static cuevent::DeviceTime least_time_of_work() {
    return time_is_virtual() ? cuevent::DeviceTime(2000) : cuevent::DeviceTime(0);
  }

  /// Opens and closes the stage, with work in it.
  void time_work(cuevent::StageTimer& timer, CUstream stream, cuevent::StageId stage) const {
    timer.open(stream, stage);
    work(stream);
    timer.close(stream);
  }

private:
  const cuevent::Context unfailing_ = cuevent::Context::borrow(context.native_handle(), unfailing_driver());
  CUdeviceptr memory_ = 0;
};

/// Few events, because the tests create and destroy all of them each time.
inline const cuevent::StageTimerOptions small{.events_per_stream = 64};

/// The only span of that stage.
inline cuevent::StageSpan span_of(const cuevent::StageReport& report, cuevent::StageId stage) {
  std::optional<cuevent::StageSpan> found;
  for (const cuevent::StageSpan& span : report.spans) {
    if (span.stage != stage) continue;
    CHECK_FALSE(found);
    found = span;
  }
  REQUIRE(found);
  return *found;
}

inline const cuevent::StageStatistics& of(const cuevent::StageReport& report, cuevent::StageId stage) {
  return report.stages.at(static_cast<std::size_t>(stage));
}

inline bool is_inside(const cuevent::StageSpan& inner, const cuevent::StageSpan& outer) {
  return outer.begin <= inner.begin && inner.begin <= inner.end && inner.end <= outer.end;
}

/// Any two spans of a stream are nested, or one follows the other.
inline void check_nesting(const cuevent::StageReport& report) {
  for (const cuevent::StageSpan& a : report.spans)
    for (const cuevent::StageSpan& b : report.spans) {
      if (a.stream != b.stream || a.number == b.number) continue;
      CHECK((is_inside(a, b) || is_inside(b, a) || a.end <= b.begin || b.end <= a.begin));
    }
}

} // namespace test
