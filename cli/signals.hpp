// SPDX-License-Identifier: MIT
// The signals of a command that starts a program, and those with which the program starts.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <sys/types.h>

namespace cli {

enum class Reports { none, on_signal };

/// What signals to a command ask for.
struct Requests {
  bool report = false;
  bool interrupted = false; // by a signal that may end the program
};

/// Keeps what this command does with signals, for was_ignored() and start_process(). Call it once, before
/// that changes.
void keep_inherited_signals();
bool was_ignored(int number);

/// The signals of a command that runs no program, or several ones: it obeys them itself.
class ObeyedSignals {
public:
  /// Takes signals from here on. Make it before anything that has to be removed. What is ignored, as with
  /// nohup, stays ignored.
  explicit ObeyedSignals(Reports reports);

  /// Waits for signals up to the limit.
  static Requests wait(std::chrono::nanoseconds limit);

  /// The signal with which the command is to end, or 0.
  static int end();
};

/// Starts a process that runs `child`, which does not return, with the signals that this command was
/// started with, which have to be kept. Returns its number. Throws std::runtime_error.
pid_t start_process(const std::function<void()>& child);

/// This command is to end, and nothing that it has started runs any more.
struct Stopped {
  int signal;
};

/// Ends a process of start_process(), which is asked first, and all that it has left. Returns when they
/// have ended.
void end_process(pid_t child);

} // namespace cli
