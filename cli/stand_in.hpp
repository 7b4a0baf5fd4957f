// SPDX-License-Identifier: MIT
// A command that stands in for the program that it starts, as if the command were not there.
#pragma once

#include "group_witness.hpp"
#include "signals.hpp"

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <sys/time.h>
#include <sys/types.h>
#include <vector>

namespace cli {

/// Signals to the command reach the program, once. The command stops, goes on and ends as the program does.
/// What the kernel keeps across exec but not across fork becomes the program's: timers, and the signal at the
/// end of the parent. The command keeps none of the files open that it was started with, but standard error.
class StandIn {
public:
  /// Takes signals from here on. Make it before anything that has to be removed.
  explicit StandIn(Reports reports);
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  ~StandIn() = default;

  /// Starts the program: a process that runs `child`, which does not return. Throws std::runtime_error.
  pid_t start(const std::function<void()>& child);

  /// Waits for signals up to the limit. They are not passed on yet.
  Requests wait(std::chrono::nanoseconds limit);

  /// Passes signals on, and stops with the program. Returns its status when it has ended.
  std::optional<int> follow();

private:
  void take_from_kernel();
  void note(const siginfo_t& signal);
  void pass_on();
  void send(const siginfo_t& signal) const;
  void stop_by(int number);

  Reports reports_;
  pid_t program_ = 0;
  int parent_end_ = 0;       // the signal at the end of the parent; 0: none
  itimerval timers_[3] = {}; // by their number
  std::vector<int> files_;   // with which the command was started
  Requests requests_;
  std::vector<siginfo_t> pending_;
  std::optional<GroupWitness> witness_;
};

/// Ends in the same way as a process with this status, without a core file of its own. Returns the exit code
/// if it ended by itself.
int end_like(int status);

/// The status of a process that has exited with this code.
constexpr int status_of(int exit_code) { return exit_code << 8; }

} // namespace cli
