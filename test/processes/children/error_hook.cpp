// SPDX-License-Identifier: MIT
// Errors of destructors reach the hook. The default hook prints a line, but not for the codes of a
// lost context or a fault.
#include "scenario.hpp"
#include "watched_driver.hpp"

#include <cuevent/error_hook.hpp>

#include <string_view>

namespace process {

namespace {

using namespace cuevent;

CUresult told = CUDA_SUCCESS;

void destructors_that_fail() {
  const Context context = Context::primary(0, watched_driver());
  const auto fail_with = [&](CUresult result) {
    DriverEvent event(context);
    answer_instead("cuEventDestroy", result);
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
  answer_instead("cuEventDestroy", CUDA_SUCCESS);
}

} // namespace

std::vector<Scenario> error_hook_scenarios() { return {{"error-hook", destructors_that_fail}}; }

} // namespace process
