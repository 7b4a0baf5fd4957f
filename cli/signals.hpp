// SPDX-License-Identifier: MIT
// The signals of a command that starts a program, and those with which the program starts.
#pragma once

#include <csignal>
#include <functional>
#include <sys/types.h>

namespace cli {

/// What a signal has requested since it was last set to 0.
struct Requested {
  static volatile std::sig_atomic_t end;         // the number of the signal: to be passed on, or obeyed
  static volatile std::sig_atomic_t interrupted; // by a signal that may end the program
  static volatile std::sig_atomic_t report;
};

/// Who obeys Ctrl-C. program: it reaches the program too, which decides.
enum class Interrupt { program, command };
enum class Reports { none, on_signal };

/// Handles signals from here on, before anything is made that has to be removed. What is ignored, as with
/// nohup, stays ignored, for the program too. Call it once.
void handle_signals(Interrupt interrupt, Reports reports);

/// Starts a process that runs `child`, which does not return, with the signals that this command was
/// started with. Returns its number. Throws std::runtime_error.
pid_t start_process(const std::function<void()>& child);

/// This command is to end, and nothing that it has started runs any more.
struct Stopped {
  int signal;
};

/// Ends a process of start_process(), which is asked first, and all that it has left. Returns when they
/// have ended.
void end_process(pid_t child);

} // namespace cli
