// SPDX-License-Identifier: MIT
// A process that runs programs, one after another, and keeps its contexts from program to program.
// It reads requests from its standard input, one a line, and writes each answer at once, so that it
// is known how far a program came.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <sys/types.h>

namespace conformance {

struct NoDriver : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A program, or part of one.
struct Request {
  std::uint64_t seed = 0;
  std::string kept; ///< '1' for each call that is made and '0' for each that is left out; empty: all are made
};

class Worker {
public:
  explicit Worker(const std::string& library);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void ask(Request);
  const Request& asked() const { return asked_; }
  int pipe() const { return from_; } ///< readable if there is something to read; -1 while the process ends
  bool prepared() const { return answered_; } ///< has answered, so its contexts are there

  enum class News {
    none,         ///< still at work
    answers,      ///< to what was asked
    last_answers, ///< likewise, and the process ends: it could not clean up
    death,        ///< the process ended without an answer, or was ended because it took too long
  };
  /// Reads what is there. Throws NoDriver if the process could not load the driver.
  News read_news();
  /// For death: those before the end, and how it ended: `..n<killed by signal 11>`.
  const std::string& answers() const { return answers_; }

private:
  using Clock = std::chrono::steady_clock;
  void close_pipes();
  std::string how_it_ended(); ///< empty while it still ends

  pid_t process_ = -1;
  int from_ = -1;
  int to_ = -1;
  Request asked_;
  std::string unread_;
  std::string answers_;
  Clock::time_point deadline_;
  bool answered_ = false;
};

/// The answers of one program, in a process of its own.
std::string run_alone(const std::string& library, const Request&);

/// If these arguments are those of a worker process, or of the other process of its programs, does its
/// work and does not return. A program that starts workers calls it first in main, because the workers are
/// the running program, started again.
void worker_main(int argc, char** argv);

} // namespace conformance
