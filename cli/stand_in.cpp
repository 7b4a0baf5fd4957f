// SPDX-License-Identifier: MIT
#include "stand_in.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace cli {

namespace {

namespace fs = std::filesystem;

int taken[2] = {-1, -1}; // a pipe: the handler writes what has come
pid_t witness = 0;

/// SIGTTOU is blocked, so that the command may write to the terminal. The others are taken by a handler.
constexpr int first_signal = 1, last_signal = 64;

bool is_fault(int number) {
  constexpr int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  return std::find(std::begin(faults), std::end(faults), number) != std::end(faults);
}

void take_signal(int number, siginfo_t* signal, void*) {
  const bool is_of_a_process = signal->si_code <= 0;
  const bool is_own = is_of_a_process && signal->si_pid == getpid(); // as SIGPIPE is
  if (is_fault(number) && (is_own || !is_of_a_process)) {            // it comes again
    std::signal(number, SIG_DFL);
    return;
  }
  if (is_own || (number == SIGCHLD && !is_of_a_process) || (is_of_a_process && signal->si_pid == witness))
    return;
  const int before = errno;
  [[maybe_unused]] const ssize_t written = ::write(taken[1], signal, sizeof *signal);
  errno = before;
}

struct sigaction taking() {
  struct sigaction action {};
  action.sa_sigaction = take_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  return action;
}

sigset_t set_of(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  return set;
}

/// The files that a new program would get.
std::vector<int> inherited_files() {
  std::vector<int> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error))
    if (const int file = std::atoi(entry.path().filename().c_str()); file > STDERR_FILENO)
      if (const int flags = fcntl(file, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) == 0)
        files.push_back(file);
  return files;
}

} // namespace

StandIn::StandIn(Reports reports) : reports_(reports), files_(inherited_files()) {
  keep_inherited_signals();
  prctl(PR_GET_PDEATHSIG, &parent_end_, 0, 0, 0);
  for (int number = 0; number < 3; ++number) { // ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF
    const itimerval none{};
    syscall(SYS_setitimer, number, &none, &timers_[number]);
  }
  if (pipe2(taken, O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  const struct sigaction action = taking();
  for (int number = first_signal; number <= last_signal; ++number)
    if (number != SIGTTOU) sigaction(number, &action, nullptr); // the C library keeps two for itself
  const sigset_t blocked = set_of(SIGTTOU);
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

pid_t StandIn::start(const std::function<void()>& child) {
  const pid_t command = getpid();
  sigset_t all, usual;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &usual);
  program_ = start_process([&] {
    if (parent_end_ != 0) {
      prctl(PR_SET_PDEATHSIG, parent_end_, 0, 0, 0);
      if (getppid() != command) raise(parent_end_);
    }
    for (int number = 0; number < 3; ++number)
      syscall(SYS_setitimer, number, &timers_[number], nullptr);
    child();
  });
  take_from_kernel();
  for (const siginfo_t& early : std::exchange(pending_, {}))
    send(early);      // also signals to the group, which the program did not get
  witness_.emplace(); // after the program: the command's first child is the program
  witness = witness_->process();
  sigprocmask(SIG_SETMASK, &usual, nullptr);
  for (const int file : files_)
    close(file);
  if (const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC); nothing >= 0) {
    dup3(nothing, STDIN_FILENO, O_CLOEXEC);
    dup3(nothing, STDOUT_FILENO, O_CLOEXEC);
    close(nothing);
  }
  return program_;
}

Requests StandIn::wait(std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{seconds.count(), (limit - seconds).count()};
  pollfd readable{taken[0], POLLIN, 0};
  ppoll(&readable, 1, &timeout, nullptr); // the end of the program interrupts it
  take_from_kernel();
  return std::exchange(requests_, {});
}

void StandIn::take_from_kernel() {
  siginfo_t signal;
  while (::read(taken[0], &signal, sizeof signal) == sizeof signal)
    note(signal);
  const sigset_t blocked = set_of(SIGTTOU);
  const timespec at_once{0, 0};
  while (sigtimedwait(&blocked, &signal, &at_once) > 0)
    note(signal);
}

void StandIn::note(const siginfo_t& signal) {
  const int number = signal.si_signo;
  if (number == SIGUSR1 && reports_ == Reports::on_signal) {
    requests_.report = true;
    return;
  }
  if ((number == SIGTERM || number == SIGHUP || number == SIGINT || number == SIGQUIT) &&
      !was_ignored(number))
    requests_.interrupted = true;
  pending_.push_back(signal);
}

void StandIn::pass_on() {
  // A signal to the group comes to one process after the other.
  constexpr timespec patience{0, 5'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &patience, nullptr);
  auto group = witness_->take();
  if (!group && witness != 0) { // it was stopped with the group, and the group goes on without it
    kill(witness, SIGCONT);
    witness_->take();
  }
  take_from_kernel();
  for (const siginfo_t& signal : std::exchange(pending_, {})) {
    if (group) {
      if (auto& count = group->at(static_cast<std::size_t>(signal.si_signo)); count > 0) {
        --count;
        continue;
      }
    } else if (witness == 0 && signal.si_code == SI_KERNEL) {
      continue; // of the terminal, most likely
    }
    send(signal);
  }
}

void StandIn::send(const siginfo_t& signal) const {
  siginfo_t copy = signal;
  if (signal.si_code != SI_QUEUE || syscall(SYS_rt_sigqueueinfo, program_, signal.si_signo, &copy) != 0)
    kill(program_, signal.si_signo);
}

std::optional<int> StandIn::follow() {
  if (!pending_.empty()) pass_on();
  int status = 0;
  const pid_t changed = waitpid(program_, &status, WNOHANG | WUNTRACED);
  if (changed < 0 && errno != EINTR)
    throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
  if (changed != program_) return std::nullopt;
  if (!WIFSTOPPED(status)) return status;
  // A command that reports on request does so for a program that somebody has stopped, too.
  if (WSTOPSIG(status) != SIGSTOP || reports_ == Reports::none) stop_by(WSTOPSIG(status));
  return std::nullopt;
}

void StandIn::stop_by(int number) {
  witness_->continue_with(program_); // whoever continues the program may not know the command
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(number, &usual, nullptr);
  const sigset_t own = set_of(number);
  sigset_t before;
  sigprocmask(SIG_UNBLOCK, &own, &before);
  raise(number); // returns when the command goes on
  sigprocmask(SIG_BLOCK, &own, nullptr);
  const struct sigaction action = taking();
  if (number != SIGTTOU) sigaction(number, &action, nullptr);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  witness_->continued();
}

int end_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); // nor for a program that takes core files
  std::signal(number, SIG_DFL);
  const sigset_t own = set_of(number);
  sigprocmask(SIG_UNBLOCK, &own, nullptr);
  raise(number);
  return 128 + number; // as the first process of a container, which most signals do not end
}

} // namespace cli
