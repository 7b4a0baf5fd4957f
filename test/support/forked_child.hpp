// SPDX-License-Identifier: MIT
// A child process that uses what its parent has made.
#pragma once

#include <cuevent/error.hpp>
#include <cuevent/error_hook.hpp>

#include <sys/wait.h>
#include <unistd.h>

namespace test {

/// The exit code of a child, or the negative number of the signal that ended it.
inline int end_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Forks, and runs `work` in the child, which exits with what `work` returns. Returns its end_of().
template <class Work>
int in_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(work());
  }
  return end_of(child);
}

/// Whether a child can run `work` in time and without an error except that the driver is not initialized.
template <class Work>
bool works_in_child(Work work) {
  return in_child([&] {
           cuevent::set_error_hook([](CUresult result, const char*, void*) noexcept {
             if (result != CUDA_ERROR_NOT_INITIALIZED) _exit(2);
           });
           work();
           return 0;
         }) == 0;
}

} // namespace test
