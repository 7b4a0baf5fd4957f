// SPDX-License-Identifier: MIT
// A program that nobody watches yet (CUEVENT_WATCH=quiet). Its records are overwritten until a signal SIGUSR1
// comes; then the command prints what they tell.
#pragma once

namespace watch {

/// Remembers what it takes to run the command. False if there is no memory.
bool prepare_quiet_mode();

/// A new file in memory, or -1. A later report is about this file.
int make_memory_file();

/// Makes the signal ask for a report, unless the program does something else with it.
void listen_to_signal();

/// Runs the command if a signal has come since the last report. It waits for the command.
void report_if_wanted();

} // namespace watch
