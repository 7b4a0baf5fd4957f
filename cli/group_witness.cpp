// SPDX-License-Identifier: MIT
#include "group_witness.hpp"

#include "report/system_processes.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cli {

namespace {

/// Others may wait until nobody has their pipes open.
void close_all_but(int kept) {
  constexpr long close_range_number = 436; // on all machines; the headers of glibc 2.31 do not name it
  constexpr long most_files = 1 << 16;     // without it: a limit of a billion would take minutes
  dup2(kept, 0);
  if (syscall(close_range_number, 1U, ~0U, 0U) == 0) return;
  const auto most = static_cast<int>(std::min(sysconf(_SC_OPEN_MAX), most_files));
  for (int file = 1; file < most; ++file)
    close(file);
}

bool is_stopped(pid_t process) {
  const auto state = watch::state_of(process);
  return state && state->state == 'T';
}

} // namespace

GroupWitness::GroupWitness() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  const pid_t command = getpid();
  const pid_t started = fork();
  if (started == 0) {
    close_all_but(ends[1]);
    run(0, command);
  }
  close(ends[1]);
  if (started < 0) {
    close(ends[0]);
    return;
  }
  process_ = started;
  socket_ = ends[0];
}

GroupWitness::~GroupWitness() {
  if (process_ == 0) return;
  close(socket_);
  kill(process_, SIGKILL); // it may be stopped
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void GroupWitness::run(int socket, pid_t command) {
  constexpr int look_interval = 20; // in ms
  constexpr int looks = 5;          // the other process may be just about to stop, as the command is
  prctl(PR_SET_NAME, "cuevent-group");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  const int signals = signalfd(-1, &all, SFD_NONBLOCK);
  Counts counts{};
  const auto count_signals = [&] {
    signalfd_siginfo come;
    while (read(signals, &come, sizeof come) == sizeof come)
      if (auto& count = counts.at(come.ssi_signo); count < UINT8_MAX) ++count;
  };
  int moving = 0; // in how many looks
  for (Request request{0, 0};;) {
    // At once: a signal that continues a process takes back the ones that would stop it.
    pollfd asked[] = {{socket, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(asked, 2, request.watched != 0 ? look_interval : -1) == 0) {
      moving = is_stopped(request.watched) || !is_stopped(command) ? 0 : moving + 1;
      if (moving % looks == 0 && moving > 0) kill(command, SIGCONT);
      continue;
    }
    count_signals();
    if (asked[0].revents == 0) continue;
    if (recv(socket, &request, sizeof request, 0) != sizeof request) _exit(0); // the command has ended
    if (request.number == 0) continue;
    count_signals();
    const Answer answer{request.number, counts};
    if (::send(socket, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) _exit(0);
    counts = {};
  }
}

bool GroupWitness::send(Request request) const {
  return process_ != 0 &&
         ::send(socket_, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof request;
}

std::optional<GroupWitness::Counts> GroupWitness::take() {
  constexpr int patience = 100; // in ms
  if (!send({++last_, 0})) return std::nullopt;
  Answer answer{};
  while (answer.number != last_) {
    pollfd answered{socket_, POLLIN, 0};
    const int ready = poll(&answered, 1, patience);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || recv(socket_, &answer, sizeof answer, MSG_DONTWAIT) != sizeof answer)
      return std::nullopt;
  }
  return answer.counts;
}

void GroupWitness::continue_with(pid_t other) { send({0, other}); }

void GroupWitness::continued() { send({0, 0}); }

} // namespace cli
