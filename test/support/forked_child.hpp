// SPDX-License-Identifier: MIT
// A child process that uses what its parent has made.
#pragma once

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

} // namespace test
