// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include "worker_lines.hpp"

#include "../transcript/start_again.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace conformance {
namespace {

constexpr std::chrono::seconds time_to_start{60};
constexpr std::chrono::seconds time_for_a_program{12}; // longer than the watchdog of the process takes

} // namespace

Worker::Worker(const std::string& library) {
  const transcript::Started started = transcript::start_again({worker_argument, library});
  process_ = started.process;
  from_ = started.from;
  to_ = started.to;
  std::signal(SIGPIPE, SIG_IGN); // a worker that has died is found out by reading
}

Worker::~Worker() { end(true); }

void Worker::ask(Request request) {
  asked_ = std::move(request);
  const std::string line = std::to_string(asked_.seed) + " " + asked_.kept + "\n";
  (void)!write(to_, line.data(), line.size()); // fails only if the process is dead
  deadline_ = Clock::now() + (started_ ? time_for_a_program : time_to_start);
  started_ = true;
}

Worker::News Worker::read_news() {
  pollfd ready{from_, POLLIN, 0};
  if (poll(&ready, 1, 0) == 1) {
    char buffer[4096];
    const ssize_t got = read(from_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) return News::none;
    if (got <= 0) {
      answers_ = unread_ + "<" + end(false) + ">";
      return News::death;
    }
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
  if (const auto line_end = unread_.find('\n'); line_end != std::string::npos) {
    answers_ = unread_.substr(0, line_end);
    unread_.erase(0, line_end + 1);
    if (answers_.starts_with(no_driver)) throw NoDriver(answers_.substr(no_driver.size()));
    if (!answers_.ends_with(last_program)) return News::answers;
    answers_.pop_back();
    end(false);
    return News::last_answers;
  }
  if (Clock::now() < deadline_) return News::none;
  end(true);
  answers_ = unread_ + "<hangs>";
  return News::death;
}

std::string Worker::end(bool by_force) {
  if (process_ <= 0) return "";
  if (by_force) kill(process_, SIGKILL);
  close(from_);
  close(to_);
  const int status = transcript::wait_for(process_);
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
