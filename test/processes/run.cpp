// SPDX-License-Identifier: MIT
#include "run.hpp"

#include "emulator.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <span>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace test {

namespace {

using Clock = std::chrono::steady_clock;

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Whether the variable NAME=VALUE has the same name as one of the others.
bool names_one_of(const std::string& variable, std::span<const std::string> others) {
  const std::string name = variable.substr(0, variable.find('=') + 1);
  return std::any_of(others.begin(), others.end(),
                     [&](const std::string& other) { return other.starts_with(name); });
}

[[noreturn]] void fail(int error, const char* call) {
  throw std::system_error(error, std::generic_category(), call);
}

/// Reads until all writers are gone. Returns false on a timeout.
bool read_to_end(int from, Clock::time_point deadline, std::string& text) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd readable{.fd = from, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, static_cast<int>(left.count())) <= 0) continue; // interrupted, or too late
    char buffer[4096];
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  }
}

} // namespace

Ended run(std::vector<std::string> words, std::vector<std::string> environment,
          std::chrono::seconds patience) {
  const std::vector<std::string> before = emulator();
  words.insert(words.begin(), before.begin(), before.end());
  const std::size_t added = environment.size();
  for (char** inherited = environ; *inherited != nullptr; ++inherited)
    if (!names_one_of(*inherited, {environment.data(), added})) environment.emplace_back(*inherited);

  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) fail(errno, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO);
  pid_t process = 0;
  const int failed = posix_spawnp(&process, words.front().c_str(), &actions, nullptr,
                                  pointers_to(words).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  if (failed != 0) fail(failed, "posix_spawnp");

  Ended ended;
  const bool in_time = read_to_end(output[0], Clock::now() + patience, ended.output);
  if (!in_time) kill(process, SIGKILL);
  close(output[0]);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time)
    ended.how = "did not end";
  else if (WIFSIGNALED(status))
    ended.how = "killed by signal " + std::to_string(WTERMSIG(status));
  else
    ended.how = "exited with " + std::to_string(WEXITSTATUS(status));
  return ended;
}

} // namespace test
