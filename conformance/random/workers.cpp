// SPDX-License-Identifier: MIT
#include "workers.hpp"

#include "worker.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "worker.hpp"

namespace conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds time_to_start{60};
constexpr std::chrono::seconds time_for_a_seed{12};

/// A process that runs every `step`-th seed from `first` on.
class Worker {
public:
  Worker(const std::string& library, std::uint64_t first, std::uint64_t last, std::uint64_t step, bool alone)
      : next_(first), last_(last), step_(step) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    std::string words[] = {"cuevent",
                           worker_argument,
                           library,
                           std::to_string(first),
                           std::to_string(last),
                           std::to_string(step),
                           alone ? "alone" : "many"};
    std::vector<char*> arguments;
    for (std::string& word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int failed = posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    from_ = ends[0];
    if (failed != 0) throw std::runtime_error("posix_spawn failed");
    deadline_ = Clock::now() + time_to_start;
  }
  ~Worker() {
    give_up();
    end();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int pipe() const { return from_; }
  bool late() const { return Clock::now() > deadline_; }
  std::uint64_t next() const { return next_; }
  bool finished() const { return next_ > last_; }
  const std::string& unread() const { return unread_; }

  /// Reads what is there. False at the end of the process.
  template <class Sink>
  bool read_some(Sink sink) {
    char buffer[4096];
    const ssize_t got = read(from_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    unread_.append(buffer, static_cast<std::size_t>(got));
    for (auto line_end = unread_.find('\n'); line_end != std::string::npos; line_end = unread_.find('\n')) {
      const std::string line = unread_.substr(0, line_end);
      unread_.erase(0, line_end + 1);
      if (line.starts_with(no_driver)) throw NoDriver(line.substr(no_driver.size()));
      sink(next_, line);
      next_ += step_;
      deadline_ = Clock::now() + time_for_a_seed;
    }
    return true;
  }

  void give_up() { deadline_ = Clock::now() - std::chrono::seconds(1); }

  /// Waits for the end of the process, ends it first if it is late, and says how it ended: "exited 0", "killed by signal 11".
  std::string end() {
    if (process_ <= 0) return "";
    if (late()) kill(process_, SIGKILL);
    close(from_);
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
    return "exited " + std::to_string(WEXITSTATUS(status));
  }

private:
  pid_t process_ = -1;
  int from_ = -1;
  std::uint64_t next_, last_, step_;
  std::string unread_;
  Clock::time_point deadline_;
};

} // namespace

std::string run_alone(const std::string& library, std::uint64_t seed) {
  Worker worker(library, seed, seed, 1, true);
  std::optional<std::string> answers;
  const auto keep = [&](std::uint64_t, const std::string& line) { answers = line; };
  for (;;) {
    pollfd ready{worker.pipe(), POLLIN, 0};
    poll(&ready, 1, 100);
    if (worker.late() || (ready.revents != 0 && !worker.read_some(keep))) break;
  }
  const bool late = worker.late();
  const std::string partial = worker.unread();
  const std::string end = worker.end();
  if (answers) return *answers;
  return partial + "<" + (late || end == "exited 124" ? "hangs" : end) + ">";
}

void run_seeds(const RunOptions& options,
               const std::function<void(std::uint64_t, const std::string&)>& sink) {
  const auto step = static_cast<std::uint64_t>(std::max(1, options.jobs));
  std::vector<std::unique_ptr<Worker>> workers;
  const auto start = [&](std::uint64_t first) {
    if (first <= options.seeds.last)
      workers.push_back(std::make_unique<Worker>(options.library, first, options.seeds.last, step, false));
  };
  for (std::uint64_t i = 0; i < step; ++i)
    start(options.seeds.first + i);
  const auto deadline = Clock::now() + options.time_limit;
  while (!workers.empty()) {
    if (Clock::now() > deadline) {
      for (const auto& worker : workers)
        worker->give_up();
      return;
    }
    std::vector<pollfd> ready;
    for (const auto& worker : workers)
      ready.push_back({worker->pipe(), POLLIN, 0});
    poll(ready.data(), ready.size(), 200);
    for (std::size_t i = ready.size(); i-- > 0;) {
      Worker& worker = *workers[i];
      const bool ended = ready[i].revents != 0 && !worker.read_some(sink);
      if (!ended && !worker.late()) continue;
      std::uint64_t next = worker.next();
      const bool finished = worker.finished();
      const bool wants_a_new_process = worker.end() == "exited " + std::to_string(unclean);
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
      if (finished) continue;
      if (!wants_a_new_process) {
        sink(next, run_alone(options.library, next));
        next += step;
      }
      start(next);
    }
  }
}

} // namespace conformance
