// SPDX-License-Identifier: MIT
// How the command ends. The help of each subcommand says so too.
#pragma once

namespace cli {

enum ExitCode {
  success = 0,
  failure = 1,       // something could not be done, or a driver differs from the recorded one
  usage = 2,         // the command line is wrong
  no_driver = 77,    // no usable driver or device; test runners take it for "skipped"
  interrupted = 130, // by SIGINT, as a shell says it; what was measured until then has been written
};

} // namespace cli
