#include "fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <mutex>
#include <utility>

namespace test {

namespace {

std::mutex mutex;
std::vector<std::string> reports;

void note_report(CUresult result, const char* call) noexcept {
  const std::lock_guard lock(mutex);
  reports.push_back(std::string(call) + " " + std::to_string(static_cast<int>(result)));
}

std::vector<bool> active_primaries() {
  std::vector<bool> active(static_cast<std::size_t>(device_count()));
  for (std::size_t device = 0; device < active.size(); ++device)
    active[device] = primary_is_active(static_cast<int>(device));
  return active;
}

} // namespace

std::vector<CUcontext> context_stack() {
  const cuevent::DriverTable& table = driver().table();
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
  const cuevent::DriverTable& table = driver().table();
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
  REQUIRE(driver().table().cuDeviceGet_v2000(&handle, device) == CUDA_SUCCESS);
  REQUIRE(call<PFN_cuDevicePrimaryCtxGetState_v7000>("cuDevicePrimaryCtxGetState",
                                                     7000)(handle, &flags, &active) == CUDA_SUCCESS);
  return active != 0;
}

int device_count() {
  int count = 0;
  REQUIRE(driver().table().cuDeviceGetCount_v2000(&count) == CUDA_SUCCESS);
  return count;
}

cuevent::Context& kept_primary() {
  static cuevent::Context kept;
  if (!kept) kept = cuevent::Context::primary(0, driver());
  return kept;
}

Fixture::Fixture()
    : context(kept_primary()), stack_(context_stack()), mode_(capture_mode()), handles_(live_handles()),
      active_(active_primaries()) {
  cuevent::set_error_hook(note_report);
  CHECK(stack_.empty());
}

Fixture::~Fixture() {
  context = kept_primary();
  const LiveHandles handles = live_handles();
  CHECK(context_stack() == stack_);
  CHECK(capture_mode() == mode_);
  CHECK(handles.events == handles_.events);
  CHECK(handles.streams == handles_.streams);
  CHECK(handles.contexts == handles_.contexts);
  CHECK(handles.primary_retains == handles_.primary_retains);
  CHECK(active_primaries() == active_);
  const std::vector<std::string> untaken = take_reports();
  CAPTURE(untaken);
  CHECK(untaken.empty());
}

std::chrono::steady_clock::time_point Fixture::now() {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(test::driver().table().clock_now()));
}

std::vector<std::string> Fixture::take_reports() {
  const std::lock_guard lock(mutex);
  return std::exchange(reports, {});
}

} // namespace test
