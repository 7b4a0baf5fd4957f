// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "emulator.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>
#include <unistd.h>

Death death_of(const std::function<void()>& body) {
  std::array<int, 2> channel{};
  if (pipe(channel.data()) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL); // the handler of the test framework would print a report
    dup2(channel[1], STDERR_FILENO);
    close(channel[0]);
    body();
    _exit(0);
  }
  close(channel[1]);
  Death death;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(channel[0], buffer.data(), buffer.size())) > 0;)
    death.report.append(buffer.data(), static_cast<std::size_t>(got));
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  death.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  death.crashed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  return death;
}

void skip_without_threads_in_children() {
#if defined(__SANITIZE_THREAD__)
  SKIP("the thread sanitizer lets no forked child start a thread");
#endif
  if (!emulator().empty()) SKIP("the emulator of arm64 ends when a forked child starts a thread");
}
