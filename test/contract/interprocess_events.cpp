// SPDX-License-Identifier: MIT
// Waits for interprocess events. Only the event's own context and its green contexts can wait: for
// any other context, the driver would crash the process.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/ipc.hpp>
#include <cuevent/sim.hpp>

#include <catch2/matchers/catch_matchers.hpp>

#include <chrono>

using namespace cuevent;
using namespace test;

namespace {

void check_refused(const DriverEvent& event, CUstream stream) {
  CHECK(event.try_wait(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(event.wait(stream), ContextMismatch);
  CHECK_THROWS_WITH(event.wait(stream, WaitFlags::external_in_capture),
                    ContainsSubstring("EventFlags::interprocess in context 0x") &&
                        ContainsSubstring("a wait for it in context 0x") &&
                        ContainsSubstring("record an event without the flag"));
}

} // namespace

TEST_CASE_METHOD(Fixture, "a stream of the event's own context can wait for an interprocess event") {
  const Stream producer(context), consumer(context);
  DriverEvent event(context, EventFlags::interprocess), consumed(context);
  event.wait(consumer); // never recorded: no effect
  Gate gate(producer);
  event.record(producer);
  event.wait(consumer);
  event.wait({context, CU_STREAM_PER_THREAD});
  consumed.record(consumer);
  CHECK_FALSE(consumed.query());
  gate.open();
  CHECK(consumed.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "a wait for an interprocess event on a stream of another context is refused") {
  const Context created = Context::create(0, driver);
  const Stream stream(context), other(created);
  DriverEvent event(context, EventFlags::interprocess), theirs(created, EventFlags::interprocess);
  check_refused(event, other); // never recorded
  check_refused(theirs, stream);
  {
    Gate gate(stream);
    event.record(stream);
    check_refused(event, other); // pending
    gate.open();
    CHECK(event.synchronize_for(1min));
  }
  check_refused(event, other); // done
  static_cast<void>(event.ipc_handle());
  check_refused(event, other); // exported
  for (CUstream const handle : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    CHECK_THROWS_AS(event.wait({created, handle}), ContextMismatch);
    CHECK(event.try_wait({created, handle}) == CUDA_ERROR_INVALID_HANDLE);
  }
  const DriverEvent borrowed = DriverEvent::borrow(context, event.native_handle(), EventFlags::interprocess);
  check_refused(borrowed, other);
  CHECK(event.query());
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(Fixture, "a graph of another context can wait for an interprocess event") {
  const Context created = Context::create(0, driver);
  const Stream stream(context), other(created);
  DriverEvent event(context, EventFlags::interprocess);
  StreamCapture capture(created, other, CaptureMode::relaxed);
  event.wait(other, WaitFlags::external_in_capture);
  Graph graph = capture.end();
  graph.add_wait(event);
  GraphExec exec = graph.instantiate();
  DriverEvent launched(created);
  Gate gate(stream);
  event.record(stream);
  exec.launch(other);
  launched.record(other);
  CHECK_FALSE(launched.query());
  gate.open();
  CHECK(launched.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "wait_context for an interprocess event of another context is refused") {
  test::need(12050);
  const Context created = Context::create(0, driver);
  const DriverEvent event(context, EventFlags::interprocess);
  event.wait_context(context);
  CHECK(event.try_wait_context(created) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(event.wait_context(created), ContextMismatch);
  CHECK_THROWS_WITH(event.wait_context(created), ContainsSubstring("EventFlags::interprocess"));
  const Stream other(created);
  StreamCapture capture(created, other, CaptureMode::relaxed);
  CHECK_THROWS_AS(event.wait_context(created), ContextMismatch); // and the capture is unharmed
  capture.end();
}

TEST_CASE_METHOD(Fixture, "an imported event can be waited for only in the context that imported it") {
  if (!test::simulated()) SKIP("needs two processes in one, which only the simulator has");
  const Driver far(cuevent::sim::get_proc_address_of(1));
  const Context there = Context::primary(0, far);
  const DriverEvent exported(there, EventFlags::interprocess);
  const DriverEvent imported = DriverEvent::from_ipc_handle(context, exported.ipc_handle());
  const Context created = Context::create(0, driver);
  const Stream stream(context), other(created);
  imported.wait(stream);
  check_refused(imported, other);
}

#if CUDA_VERSION >= 12050
namespace {

/// A green context of device 0, and a stream of it.
class Green {
public:
  Green() {
    const auto resource_of = test::call<PFN_cuDeviceGetDevResource_v12040>("cuDeviceGetDevResource", 12040);
    const auto describe =
        test::call<PFN_cuDevResourceGenerateDesc_v12040>("cuDevResourceGenerateDesc", 12040);
    const auto create = test::call<PFN_cuGreenCtxCreate_v12040>("cuGreenCtxCreate", 12040);
    const auto context_of = test::call<PFN_cuCtxFromGreenCtx_v12040>("cuCtxFromGreenCtx", 12040);
    const auto make = test::call<PFN_cuGreenCtxStreamCreate_v12050>("cuGreenCtxStreamCreate", 12050);
    CUdevResource resource{};
    CUdevResourceDesc description = nullptr;
    REQUIRE(resource_of(0, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
    REQUIRE(describe(&description, &resource, 1) == CUDA_SUCCESS);
    REQUIRE(create(&handle, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
    REQUIRE(context_of(&context, handle) == CUDA_SUCCESS);
    REQUIRE(make(&stream, handle, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  }
  Green(const Green&) = delete;
  Green& operator=(const Green&) = delete;
  ~Green() {
    const auto destroy_stream = // as little counted as the stream's making
        test::uncounted_driver().entry_point<PFN_cuStreamDestroy_v4000>("cuStreamDestroy", 4000);
    CHECK(destroy_stream(stream) == CUDA_SUCCESS);
    CHECK(test::call<PFN_cuGreenCtxDestroy_v12040>("cuGreenCtxDestroy", 12040)(handle) == CUDA_SUCCESS);
  }

  CUgreenCtx handle = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

} // namespace

TEST_CASE_METHOD(Fixture,
                 "green contexts and their primary context can wait for each other's interprocess events") {
  test::need(12050);
  const Green green;
  const Stream stream(context);
  const Context created = Context::create(0, driver);
  DriverEvent event(context, EventFlags::interprocess), other(created, EventFlags::interprocess);
  event.record(stream);
  event.wait(green.stream);
  event.wait_context(green.handle);
  CHECK(event.synchronize_for(1min));
  CHECK_THROWS_AS(other.wait(green.stream), ContextMismatch);
  CHECK_THROWS_AS(other.wait_context(green.handle), ContextMismatch);
  CHECK(other.try_wait(green.stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(other.try_wait_context(green.handle) == CUDA_ERROR_INVALID_HANDLE);
  const DriverEvent of_green(Context::borrow(green.context, test::unfailing_driver()),
                             EventFlags::interprocess);
  of_green.wait(stream);
  of_green.wait(green.stream);
}
#endif
