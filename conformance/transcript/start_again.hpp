// SPDX-License-Identifier: MIT
// Starts the running program again, as another process.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace transcript {

/// The words that start the running program. Under an emulator, the emulator comes first.
std::vector<std::string> this_program();

struct Started {
  pid_t process;
  int from; ///< its standard output
  int to;   ///< its standard input: a socket, so that a write to a dead process need not raise a signal
};

/// Where its standard error goes.
enum class Errors { to_ours, to_its_output };

/// Throws std::runtime_error.
Started start_again(const std::vector<std::string>& arguments, Errors errors = Errors::to_ours);

int wait_for(pid_t process); ///< until it ends; its wait status

} // namespace transcript
