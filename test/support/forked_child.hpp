// SPDX-License-Identifier: MIT
// A child process that uses what its parent has made.
#pragma once

#include <cuevent/error.hpp>

#include <sys/wait.h>
#include <unistd.h>

namespace test {

/// Forks, and runs `work` in the child. Returns true if the child ends in time and reports no error
/// except that the driver is not initialized.
template <class Work>
bool works_in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    cuevent::set_error_hook([](CUresult result, const char*) noexcept {
      if (result != CUDA_ERROR_NOT_INITIALIZED) _exit(2);
    });
    work();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace test
