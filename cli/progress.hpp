// SPDX-License-Identifier: MIT
// Shows the progress of a command on standard error, if that is a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <utility>

namespace cli {

class Progress {
public:
  /// `what` is the unit: "answers" gives "1234 answers".
  explicit Progress(std::string what) : what_(std::move(what)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { erase(); }

  /// Erases the line.
  void erase() {
    if (terminal_ && shown_ != Clock::time_point()) std::fputs("\r\033[K", stderr);
    shown_ = {};
  }

  /// Only reads the clock most of the time. Writes at most ten times a second.
  void show(std::size_t count) {
    if (!terminal_) return;
    const Clock::time_point now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    std::fprintf(stderr, "\r%zu %s", count, what_.c_str());
    std::fflush(stderr);
  }

private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  Clock::time_point shown_{};
};

} // namespace cli
