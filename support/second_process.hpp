// SPDX-License-Identifier: MIT
// The program once more, as another process.
#pragma once

#include "emulator.hpp"

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

/// Runs `program` with `role`. The process inherits the descriptors as 100, 101 and so on, and no others
/// that exec closes. They are closed here, so that only the process has them.
class SecondProcess {
public:
  static constexpr int first_descriptor = 100;

  SecondProcess(const std::string& program, const std::string& role, std::initializer_list<int> descriptors) {
    std::vector<std::string> words = emulator();
    words.insert(words.end(), {program, role});
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int next = first_descriptor;
    for (const int descriptor : descriptors)
      posix_spawn_file_actions_adddup2(&actions, descriptor, next++);
    const int failed = posix_spawnp(&process_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    for (const int descriptor : descriptors)
      close(descriptor);
    if (failed != 0) throw std::runtime_error("the second process does not start");
  }
  SecondProcess(const SecondProcess&) = delete;
  SecondProcess& operator=(const SecondProcess&) = delete;
  ~SecondProcess() { kill(); }

  void kill() {
    if (process_ < 0) return;
    send_kill();
    wait();
  }
  /// Does not wait for the end.
  void send_kill() const {
    if (process_ > 0) ::kill(process_, SIGKILL);
  }
  /// Waits for the end: "exited with 0", or "killed by signal 9".
  std::string wait() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
    return "exited with " + std::to_string(WEXITSTATUS(status));
  }

private:
  pid_t process_ = -1;
};
