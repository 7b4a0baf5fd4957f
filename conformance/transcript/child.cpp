// SPDX-License-Identifier: MIT
#include "child.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace transcript {

Child::Child(const Lab& lab, const std::string& scenario, const std::vector<std::string>& arguments,
             Errors errors) {
  std::vector<std::string> words = {"--transcript-child", lab.library, scenario,
                                    std::to_string(lab.watchdog_s * 3 / 4)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Started started = start_again(words, errors);
  pid_ = started.process;
  from_ = started.from;
  to_ = started.to;
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

bool Child::tell(const std::string& line) {
  const std::string text = line + "\n";
  return send(to_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

void Child::say(const std::string& line) {
  if (!tell(line)) throw SetUpFailure("write to child");
}

std::string Child::finish() {
  close(to_);
  close(from_);
  const int status = wait_for(pid_);
  pid_ = -1;
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return "exited " + std::to_string(WEXITSTATUS(status));
}

bool relay(Lab& lab, Child& child) {
  while (const auto line = child.read_line()) {
    if (*line == "?") return true;
    const auto equals = line->find(" = ");
    if (equals != std::string::npos) lab.shows(line->substr(0, equals), line->substr(equals + 3));
  }
  return false;
}

std::string ask() {
  std::puts("?");
  std::fflush(stdout);
  return heard();
}

std::string heard() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

} // namespace transcript
