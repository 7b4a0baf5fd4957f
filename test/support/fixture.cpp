// SPDX-License-Identifier: MIT
#include "fixture.hpp"

#include "destroyed.hpp"

#include <cuevent/error.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/catch_test_macros.hpp>

#include <mutex>
#include <utility>

namespace test {

namespace {

std::mutex mutex;
std::vector<std::string> reports;
FixtureObserver* observer = nullptr;

void note_report(CUresult result, const char* call, void*) noexcept {
  const std::lock_guard lock(mutex);
  reports.push_back(std::string(call) + " " + std::to_string(static_cast<int>(result)));
  if (observer != nullptr) observer->reported(result, call);
}

std::vector<bool> active_primaries() {
  std::vector<bool> active(static_cast<std::size_t>(device_count()));
  for (std::size_t device = 0; device < active.size(); ++device)
    active[device] = primary_is_active(static_cast<int>(device));
  return active;
}

/// Adds an entry to `left` if the number has changed.
void compare(std::vector<std::string>& left, const char* what, int before, int after) {
  if (after != before)
    left.push_back(std::string(what) + (after > before ? " +" : " ") + std::to_string(after - before));
}

} // namespace

std::vector<CUcontext> context_stack() {
  const cuevent::DriverTable& table = unfailing_driver().table();
  std::vector<CUcontext> stack;
  CUcontext context = nullptr;
  while (table.cuCtxGetCurrent_v4000(&context) == CUDA_SUCCESS && context != nullptr &&
         table.cuCtxPopCurrent_v4000(&context) == CUDA_SUCCESS)
    stack.push_back(context);
  for (auto pushed = stack.rbegin(); pushed != stack.rend(); ++pushed)
    table.cuCtxPushCurrent_v4000(*pushed);
  return stack;
}

CUstreamCaptureMode capture_mode() {
  const cuevent::DriverTable& table = unfailing_driver().table();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  table.cuThreadExchangeStreamCaptureMode_v10010(&mode);
  CUstreamCaptureMode found = mode;
  table.cuThreadExchangeStreamCaptureMode_v10010(&mode);
  return found;
}

bool primary_is_active(int device) {
  CUdevice handle = 0;
  unsigned flags = 0;
  int active = 0;
  REQUIRE(unfailing_driver().table().cuDeviceGet_v2000(&handle, device) == CUDA_SUCCESS);
  REQUIRE(call<PFN_cuDevicePrimaryCtxGetState_v7000>("cuDevicePrimaryCtxGetState",
                                                     7000)(handle, &flags, &active) == CUDA_SUCCESS);
  return active != 0;
}

int device_count() {
  int count = 0;
  REQUIRE(unfailing_driver().table().cuDeviceGetCount_v2000(&count) == CUDA_SUCCESS);
  return count;
}

cuevent::Context second_device(const cuevent::Driver& driver) {
  if (device_count() < 2) SKIP("needs a second device");
  return cuevent::Context::primary(1, driver);
}

void need(int version) {
  if (driver().version() < version) SKIP("needs a driver of version " << version);
}

cuevent::Context& kept_primary() {
  static cuevent::Context kept;
  if (!kept) kept = cuevent::Context::primary(0, driver());
  return kept;
}

void set_fixture_observer(FixtureObserver* next) noexcept { observer = next; }

Fixture::Fixture()
    : context(kept_primary()), stack_(context_stack()), mode_(capture_mode()), handles_(live_handles()),
      active_(active_primaries()) {
  cuevent::set_error_hook(note_report);
  CHECK(stack_.empty());
  if (observer != nullptr) observer->body_begins();
}

Fixture::~Fixture() {
  if (observer != nullptr) {
    cuevent::destroy_retired(); // a test that fails does not reach its own call
    const bool judged = observer->judges_handles();
    observer->body_ends();
    finish_work(); // a test that fails has not waited for its work
    if (judged)
      destroyed_down_to(handles_.events, cuevent::destroy_retired);
    else
      drop_live_handles();
  }
  context = kept_primary();
  const LeftBehind left = left_behind();
  const std::vector<std::string> untaken = take_reports();
  if (observer != nullptr) {
    mend();
    observer->left_behind(left);
  } else {
    CAPTURE(left.on_thread, left.handles, untaken);
    CHECK(left.on_thread.empty());
    CHECK(left.handles.empty());
    CHECK(untaken.empty());
  }
}

void Fixture::finish_work() {
  const cuevent::ContextGuard guard(kept_primary());
  call<PFN_cuCtxSynchronize_v2000>("cuCtxSynchronize", 2000)();
}

LeftBehind Fixture::left_behind() const {
  LeftBehind left;
  if (context_stack() != stack_) left.on_thread.emplace_back("the stack of contexts");
  if (capture_mode() != mode_) left.on_thread.emplace_back("the capture mode");
  if (active_primaries() != active_) left.handles.emplace_back("an active primary context");
  const LiveHandles now = live_handles();
  compare(left.handles, "events", handles_.events, now.events);
  compare(left.handles, "streams", handles_.streams, now.streams);
  compare(left.handles, "contexts", handles_.contexts, now.contexts);
  compare(left.handles, "retains of primary contexts", handles_.primary_retains, now.primary_retains);
  compare(left.handles, "graphs", handles_.graphs, now.graphs);
  compare(left.handles, "graph execs", handles_.graph_execs, now.graph_execs);
  return left;
}

void Fixture::mend() const {
  const cuevent::DriverTable& table = unfailing_driver().table();
  CUcontext popped = nullptr;
  while (context_stack().size() > stack_.size() && table.cuCtxPopCurrent_v4000(&popped) == CUDA_SUCCESS) {
  }
  CUstreamCaptureMode mode = mode_;
  table.cuThreadExchangeStreamCaptureMode_v10010(&mode);

  // If the context of this thread's default stream can no longer be made current, its capture
  // cannot be ended.
  const cuevent::ContextGuard guard(kept_primary());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  table.cuStreamIsCapturing_v10000(CU_STREAM_PER_THREAD, &status);
  CUgraph graph = nullptr;
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) table.cuStreamEndCapture_v10000(CU_STREAM_PER_THREAD, &graph);
  if (graph != nullptr) table.cuGraphDestroy_v10000(graph);
}

std::chrono::steady_clock::time_point Fixture::now() {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(test::driver().table().clock_now()));
}

std::vector<std::string> Fixture::take_reports() {
  const std::lock_guard lock(mutex);
  return std::exchange(reports, {});
}

} // namespace test
