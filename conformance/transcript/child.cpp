// SPDX-License-Identifier: MIT
#include "child.hpp"

#include "emulator.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace transcript {

namespace {

/// The command that starts this program.
std::vector<std::string> this_program() {
  std::vector<std::string> words = emulator();
  if (words.empty()) return {"/proc/self/exe"};
  words.push_back(std::filesystem::read_symlink("/proc/self/exe")); // what the emulator says that it is
  return words;
}

} // namespace

Child::Child(const Lab& lab, const std::string& scenario, const std::vector<std::string>& arguments) {
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) throw SetUpFailure("pipe2");
  to_ = to[1];
  from_ = from[0];

  std::vector<std::string> words = this_program();
  words.insert(words.end(),
               {"--transcript-child", lab.library, scenario, std::to_string(lab.watchdog_s * 3 / 4)});
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  const int failed = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  if (failed != 0) throw SetUpFailure("posix_spawnp");
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    finish();
  }
}

std::optional<std::string> Child::read_line() {
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    char buffer[4096];
    const ssize_t got = read(from_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
}

void Child::say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw SetUpFailure("write to child");
}

std::string Child::finish() {
  close(to_);
  close(from_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return "exited " + std::to_string(WEXITSTATUS(status));
}

std::string heard() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

} // namespace transcript
