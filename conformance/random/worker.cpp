// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include "program.hpp"
#include "worker_lines.hpp"

#include "../transcript/start_again.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace conformance {
namespace {

constexpr std::chrono::seconds time_to_prepare{60};    // for the first program of a profile
constexpr std::chrono::seconds time_for_a_program{12}; // longer than the watchdog of the process takes

/// Processes that were killed. A device can take seconds to free their contexts, and nobody waits for that.
void leave(pid_t process) {
  static std::vector<pid_t> leaving;
  leaving.push_back(process);
  std::erase_if(leaving, [](pid_t one) { return waitpid(one, nullptr, WNOHANG) != 0; });
}

} // namespace

Worker::Worker(const std::string& library) {
  const transcript::Started started = transcript::start_again({worker_argument, library});
  process_ = started.process;
  from_ = started.from;
  to_ = started.to;
  std::signal(SIGPIPE, SIG_IGN); // a worker that has died is found out by reading
}

Worker::~Worker() {
  close_pipes();
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  leave(process_);
}

void Worker::ask(Request request) {
  const bool prepared = answered_ && profile_of(asked_.seed) == profile_of(request.seed);
  asked_ = std::move(request);
  const std::string line = std::to_string(asked_.seed) + " " + asked_.kept + "\n";
  (void)!write(to_, line.data(), line.size()); // fails only if the process is dead
  deadline_ = Clock::now() + (prepared ? time_for_a_program : time_to_prepare);
}

Worker::News Worker::read_news() {
  pollfd ready{from_, POLLIN, 0};
  if (poll(&ready, 1, 0) == 1) {
    char buffer[4096];
    const ssize_t got = read(from_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) return News::none;
    if (got <= 0)
      close_pipes();
    else
      unread_.append(buffer, static_cast<std::size_t>(got));
  }
  if (const auto line_end = unread_.find('\n'); line_end != std::string::npos) {
    answers_ = unread_.substr(0, line_end);
    unread_.erase(0, line_end + 1);
    if (answers_.starts_with(no_driver)) throw NoDriver(answers_.substr(no_driver.size()));
    answered_ = true;
    if (!answers_.ends_with(last_program)) return News::answers;
    answers_.pop_back();
    return News::last_answers;
  }
  const std::string end = from_ < 0 ? how_it_ended() : Clock::now() < deadline_ ? "" : "hangs";
  if (end.empty()) return News::none;
  answers_ = unread_ + "<" + end + ">";
  return News::death;
}

void Worker::close_pipes() {
  if (from_ < 0) return;
  close(std::exchange(from_, -1));
  close(std::exchange(to_, -1));
}

std::string Worker::how_it_ended() {
  int status = 0;
  if (waitpid(process_, &status, WNOHANG) != process_) return "";
  process_ = -1;
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) == hung) return "hangs";
  return "exited " + std::to_string(WEXITSTATUS(status));
}

std::string run_alone(const std::string& library, const Request& request) {
  Worker worker(library);
  worker.ask(request);
  for (;;) {
    pollfd ready{worker.pipe(), POLLIN, 0};
    poll(&ready, 1, 100);
    if (worker.read_news() != Worker::News::none) return worker.answers();
  }
}

} // namespace conformance
