// SPDX-License-Identifier: MIT
// Errors of destructors reach the hook. The default hook prints a line, but not for the codes of a
// lost context or a fault.
#include "scenario.hpp"

#include <cuevent/error.hpp>

#include <string_view>

namespace process {

namespace {

using namespace cuevent;

CUresult told = CUDA_SUCCESS, answer = CUDA_SUCCESS;

/// The driver of this process, but with a cuEventDestroy that only returns `answer`.
CUresult CUDAAPI get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  const CUresult result = Driver::instance().table().get_proc_address(name, function, version, flags, status);
  if (std::string_view(name) == "cuEventDestroy")
    *function = reinterpret_cast<void*>(+[](CUevent) { return answer; });
  return result;
}

void destructors_that_fail() {
  const Context context = Context::primary(0, Driver(get_proc_address));
  const auto fail_with = [&](CUresult result) {
    const DriverEvent event(context);
    answer = result;
  };
  for (CUresult silent : {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_CONTEXT_IS_DESTROYED,
                          CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_ILLEGAL_ADDRESS})
    fail_with(silent);
  fail_with(CUDA_ERROR_OPERATING_SYSTEM); // the only line

  const ErrorHook before = set_error_hook([](CUresult result, const char* call, void*) noexcept {
    expect(std::string_view(call) == "cuEventDestroy", "the hook is told the call that failed");
    told = result;
  });
  for (CUresult result : {CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_ILLEGAL_ADDRESS}) {
    fail_with(result);
    expect(told == result, "a hook is told every result of a driver that works");
  }
  for (CUresult result : {CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_DEINITIALIZED}) {
    fail_with(result);
    expect(told == CUDA_ERROR_ILLEGAL_ADDRESS,
           "no hook hears what a forked child or an exiting process is told");
  }
  set_error_hook(before);
}

} // namespace

std::vector<Scenario> error_hook_scenarios() { return {{"error-hook", destructors_that_fail}}; }

} // namespace process
