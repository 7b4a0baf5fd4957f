// SPDX-License-Identifier: MIT
// Shows the progress of a command on standard error.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <utility>

namespace cli {

class Progress {
public:
  enum class Where {
    terminal, // only on a terminal
    anywhere, // also in a file or pipe, there as a line every ten seconds
  };

  /// `what` is the unit: "answers" gives "1234 answers".
  explicit Progress(std::string what, Where where = Where::terminal)
      : what_(std::move(what)), where_(where) {}
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
    if (!terminal_ && where_ == Where::terminal) return;
    const Clock::time_point now = Clock::now();
    if (now - (terminal_ ? shown_ : std::max(shown_, begin_)) < pause_) return;
    shown_ = now;
    std::fprintf(stderr, terminal_ ? "\r%zu %s" : "%zu %s\n", count, what_.c_str());
    std::fflush(stderr);
  }

private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const Where where_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const std::chrono::milliseconds pause_{terminal_ ? 100 : 10'000};
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_{};
};

} // namespace cli
