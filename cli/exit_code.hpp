// SPDX-License-Identifier: MIT
// The exit codes of the command. The help of each subcommand lists them.
#pragma once

namespace cli {

enum ExitCode {
  success = 0,
  failure = 1,     // something failed, there are findings, or the driver differs from the recording
  usage = 2,       // the command line is wrong, or names a file that cannot be used: no program was started
  not_written = 3, // the program has succeeded, and a file with what was found could not be written
  no_driver = 77,  // no usable driver or device; test runners count this as skipped
  // As a shell answers. Only from `cuevent watch` and `cuevent sim`.
  not_started = 126, // the program cannot be run or watched
  not_found = 127,   // there is no such program
};

} // namespace cli
