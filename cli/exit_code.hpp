// SPDX-License-Identifier: MIT
// The exit codes of the command. The help of each subcommand lists them.
#pragma once

namespace cli {

enum ExitCode {
  success = 0,
  failure = 1,    // something could not be done, or the driver differs from the recording
  usage = 2,      // the command line is wrong
  no_driver = 77, // no usable driver or device; test runners count this as skipped
};

} // namespace cli
