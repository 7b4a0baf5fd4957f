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

namespace {

using namespace std::chrono_literals;

volatile std::sig_atomic_t end_signal = 0, interrupted = 0, report_requested = 0;

constexpr std::size_t signals = 65; // by their number
struct sigaction inherited[signals];
sigset_t inherited_mask;

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  if (!was_ignored(number)) sigaction(number, &action, nullptr);
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

void keep_inherited_signals() {
  for (std::size_t number = 1; number < signals; ++number)
    sigaction(static_cast<int>(number), nullptr, &inherited[number]);
  sigprocmask(SIG_BLOCK, nullptr, &inherited_mask);
}

bool was_ignored(int number) { return inherited[number].sa_handler == SIG_IGN; }

ObeyedSignals::ObeyedSignals(Reports reports) {
  keep_inherited_signals();
  // The program's exit code is wanted even if the parent ignores the ends of its children, and the reader
  // of the findings may end before the program.
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  if (reports == Reports::on_signal) handle(SIGUSR1, [](int) { report_requested = 1; });
  for (const int number : {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM})
    if (number != SIGUSR1 || reports == Reports::none)
      handle(number, [](int came) {
        interrupted = 1;
        end_signal = came;
      });
}

Requests ObeyedSignals::wait(std::chrono::nanoseconds limit) {
  std::this_thread::sleep_for(limit);
  Requests requests;
  if (report_requested != 0) {
    report_requested = 0;
    requests.report = true;
  }
  if (interrupted != 0) {
    interrupted = 0;
    requests.interrupted = true;
  }
  return requests;
}

int ObeyedSignals::end() { return end_signal; }

pid_t start_process(const std::function<void()>& child) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before); // a signal for the child is not to run a handler of this command
  const pid_t started = fork();
  if (started == 0) {
    for (std::size_t number = 1; number < signals; ++number)
      sigaction(static_cast<int>(number), &inherited[number], nullptr);
    sigprocmask(SIG_SETMASK, &inherited_mask, nullptr);
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
