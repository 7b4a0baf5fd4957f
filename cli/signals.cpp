// SPDX-License-Identifier: MIT
#include "signals.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace cli {

volatile std::sig_atomic_t Requested::end = 0;
volatile std::sig_atomic_t Requested::interrupted = 0;
volatile std::sig_atomic_t Requested::report = 0;

namespace {

using namespace std::chrono_literals;

constexpr int changed[] = {SIGCHLD, SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
struct sigaction inherited[std::size(changed)]; // as this command was started with

void handle(int number, void (*handler)(int)) {
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  if (sigaction(number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
}

/// Whether the process has ended within the time.
bool ends_within(pid_t process, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    const pid_t ended = waitpid(process, nullptr, WNOHANG);
    if (ended == process || (ended < 0 && errno == ECHILD)) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

std::vector<pid_t> children_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::ifstream file("/proc/" + number + "/task/" + number + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

void kill_and_wait(pid_t process) {
  kill(process, SIGKILL);
  ends_within(process, 5s);
}

} // namespace

void handle_signals(Interrupt interrupt, Reports reports) {
  for (std::size_t i = 0; i < std::size(changed); ++i)
    sigaction(changed[i], nullptr, &inherited[i]);
  // The program's exit code is wanted even if the parent ignores the ends of its children, and the reader
  // of the findings may end before the program.
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const auto on_end = [](int number) {
    Requested::interrupted = 1;
    Requested::end = number;
  };
  const auto on_interrupt = [](int) { Requested::interrupted = 1; };
  if (reports == Reports::on_signal) handle(SIGUSR1, [](int) { Requested::report = 1; });
  for (const int number : {SIGTERM, SIGHUP})
    handle(number, on_end);
  // Those mean what the program makes of them: a batch system sends them to all processes of a job.
  if (reports == Reports::none) handle(SIGUSR1, [](int number) { Requested::end = number; });
  handle(SIGUSR2, [](int number) { Requested::end = number; });
  for (const int number : {SIGINT, SIGQUIT})
    handle(number, interrupt == Interrupt::command ? +on_end : +on_interrupt);
}

pid_t start_process(const std::function<void()>& child) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before); // a signal for the child is not to run a handler of this command
  const pid_t started = fork();
  if (started == 0) {
    for (std::size_t i = 0; i < std::size(changed); ++i)
      sigaction(changed[i], &inherited[i], nullptr);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    child();
    _exit(1);
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (started < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(error));
  return started;
}

void end_process(pid_t child) {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); // what loses its parent becomes a child of this process
  kill(child, SIGTERM);                      // a `cuevent watch` passes it on
  if (!ends_within(child, 5s)) {
    for (const pid_t program : children_of(child)) // then a `cuevent watch` ends, and removes its folder
      kill(program, SIGKILL);
    if (!ends_within(child, 5s)) kill_and_wait(child);
  }
  for (int turn = 0; turn < 100 && !children_of(getpid()).empty(); ++turn)
    for (const pid_t left : children_of(getpid()))
      kill_and_wait(left);
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

} // namespace cli
