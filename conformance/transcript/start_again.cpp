// SPDX-License-Identifier: MIT
#include "start_again.hpp"

#include "emulator.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace transcript {

std::vector<std::string> this_program() {
  std::vector<std::string> words = emulator();
  if (words.empty()) return {"/proc/self/exe"};
  words.push_back(std::filesystem::read_symlink("/proc/self/exe")); // what the emulator says that it is
  return words;
}

Started start_again(const std::vector<std::string>& arguments, Errors errors) {
  int to[2];
  int from[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) != 0 || pipe2(from, O_CLOEXEC) != 0)
    throw std::runtime_error("no socket or pipe could be made");

  std::vector<std::string> words = this_program();
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);

  Started started{-1, from[0], to[1]};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  if (errors == Errors::to_its_output) posix_spawn_file_actions_adddup2(&actions, from[1], STDERR_FILENO);
  const int failed = posix_spawnp(&started.process, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  if (failed != 0) throw std::runtime_error("this program cannot be started again");
  return started;
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

} // namespace transcript
