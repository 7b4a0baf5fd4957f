// SPDX-License-Identifier: MIT
// A program that nobody watches yet (CUEVENT_WATCH=quiet). Its records are overwritten until a signal SIGUSR1
// comes; then the command prints what they tell.
#pragma once

#include <sys/stat.h>

namespace watch {

struct QuietMemory;

struct QuietMode {
  QuietMemory* memory;
  char command[512];    // the path of the command
  int file;             // with the records; 0 before there is one
  struct stat identity; // of the file: the program may have closed it, and opened another one
};

/// Remembers what it takes to run the command. False if there is no memory.
bool prepare_quiet_mode();

/// A new file in memory, or -1. A later report is about this file.
int make_memory_file();

/// Makes the signal ask for a report, unless the program does something else with it.
void listen_to_signal();

/// Runs the command if a signal has come since the last report. It waits for the command.
void report_if_wanted();

} // namespace watch
