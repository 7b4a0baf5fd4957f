// SPDX-License-Identifier: MIT
// The exit codes of the command. The help of each subcommand lists them.
#pragma once

namespace cli {

enum ExitCode {
  success = 0,
  failure = 1,    // something could not be done, or the driver differs from the recording
  usage = 2,      // the command line is wrong
  no_driver = 77, // no usable driver or device; test runners count this as skipped
  // As a shell answers. Only from `cuevent watch`.
  not_started = 126, // the program cannot be run or watched
  not_found = 127,   // there is no such program
};

} // namespace cli
