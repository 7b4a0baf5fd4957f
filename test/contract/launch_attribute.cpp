// SPDX-License-Identifier: MIT
// Events that a kernel launch records through its attributes.
#include "../../support/kernels.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/launch_attribute.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <chrono>

using namespace cuevent;
using namespace test;

namespace {

/// A kernel that does nothing. Each launch has one thread.
class Kernel {
public:
  explicit Kernel(const Context& context) {
    const ContextGuard guard(context);
    REQUIRE(call<PFN_cuModuleLoadData_v2000>("cuModuleLoadData", 2000)(&module_, kernels) == CUDA_SUCCESS);
    REQUIRE(call<PFN_cuModuleGetFunction_v2000>("cuModuleGetFunction", 2000)(&function_, module_, "step") ==
            CUDA_SUCCESS);
    // The calls of the destructor must not fail.
    context_ = Context::borrow(context.native_handle(), test::unfailing_driver());
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() {
    const ContextGuard guard(context_);
    const CUresult unloaded = call<PFN_cuModuleUnload_v2000>("cuModuleUnload", 2000)(module_);
    CHECK(unloaded == CUDA_SUCCESS);
  }

  CUresult launch(CUstream stream, CUlaunchAttribute attribute) const {
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return call<PFN_cuLaunchKernelEx_v11060>("cuLaunchKernelEx", 11060)(&config, function_, nullptr, nullptr);
  }

private:
  Context context_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

constexpr int first_version_of_completion = 12030;

/// One of the three ways in which a launch records an event.
CUlaunchAttribute attribute(int way, const DriverEvent& event) {
  if (way == 0) return programmatic_event(event);
  if (way == 1) return programmatic_event(event, EventTrigger::block_start);
  return launch_completion_event(event);
}

int any_way() { return GENERATE(range(0, test::driver().version() < first_version_of_completion ? 2 : 3)); }

} // namespace

TEST_CASE_METHOD(Fixture, "a launch records the event of its attribute when the kernel reaches that point") {
  const int way = any_way();
  CAPTURE(way);
  const Kernel kernel(context);
  const Stream stream(context);
  const DriverEvent event(context);
  Gate gate(stream);
  REQUIRE(kernel.launch(stream, attribute(way, event)) == CUDA_SUCCESS);
  CHECK_FALSE(event.query());
  gate.open();
  CHECK(event.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "a programmatic event may have blocking_sync") {
  const Kernel kernel(context);
  const Stream stream(context);
  const DriverEvent event(context, EventFlags::blocking_sync);
  REQUIRE(kernel.launch(stream, programmatic_event(event)) == CUDA_SUCCESS);
  event.synchronize();
}

TEST_CASE_METHOD(Fixture, "the event of a captured launch forks the capture, as a plain record does") {
  const int way = any_way();
  CAPTURE(way);
  const Kernel kernel(context);
  const Stream stream(context), branch(context);
  const DriverEvent event(context);
  StreamCapture capture(context, stream);
  REQUIRE(kernel.launch(stream, attribute(way, event)) == CUDA_SUCCESS);
  event.wait(branch);
  CHECK(capture_status(context, branch) == CaptureStatus::active);
  CHECK(capture.end());
  CHECK_THROWS_AS(event.query(), RecordedInCapture);
}

TEST_CASE_METHOD(Fixture, "the driver also refuses the attributes that cuevent refuses, without a reason") {
  test::need(first_version_of_completion);
  const Kernel kernel(context);
  const Stream stream(context);
  const DriverEvent plain(context), timed(context, EventFlags::timing),
      shared(context, EventFlags::interprocess), blocking(context, EventFlags::blocking_sync);
  const auto launched_with = [&](CUlaunchAttribute attribute, CUevent event) {
    // The other attribute's value begins in the same way. Older headers do not name it.
    attribute.value.programmaticEvent.event = event;
    return kernel.launch(stream, attribute);
  };
  for (const CUlaunchAttribute& each : {programmatic_event(plain), launch_completion_event(plain)}) {
    CAPTURE(each.id);
    CHECK(launched_with(each, timed.native_handle()) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(launched_with(each, shared.native_handle()) == CUDA_ERROR_NOT_SUPPORTED);
  }
  CHECK(launched_with(launch_completion_event(plain), blocking.native_handle()) == CUDA_ERROR_NOT_SUPPORTED);
}
