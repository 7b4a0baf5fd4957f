// SPDX-License-Identifier: MIT
#include "child.hpp"

#include "participant.h"

#include <emulator.hpp>

#include <csignal>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace test {

Programs& programs() {
  static Programs instance;
  return instance;
}

Child::Child(const std::string& program, const std::string& role, int handle, int data) {
  std::vector<std::string> words = emulator();
  words.insert(words.end(), {program, role});
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions; // descriptors that are not named here are closed
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, handle, handle_descriptor);
  if (data >= 0) posix_spawn_file_actions_adddup2(&actions, data, data_descriptor);
  const int failed = posix_spawnp(&process_, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(handle); // only the child has it now
  if (failed != 0) throw std::runtime_error("the participant does not start");
}

void Child::kill() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  wait();
}

std::string Child::wait() {
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return "exited with " + std::to_string(WEXITSTATUS(status));
}

} // namespace test
