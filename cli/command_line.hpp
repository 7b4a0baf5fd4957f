// SPDX-License-Identifier: MIT
// The command line of `cuevent`: subcommands, options and help.
#pragma once

#include "check/check.hpp"
#include "check/check_random.hpp"
#include "exit_code.hpp"
#include "merge/merge.hpp"
#include "sim/sim.hpp"
#include "watch/watch.hpp"

#include <iosfwd>
#include <variant>

namespace cli {

struct InfoOptions {
  bool json = false;
};

/// What the user asked for: the options of one subcommand.
using Request =
    std::variant<InfoOptions, CheckOptions, RandomOptions, MergeOptions, SimOptions, WatchOptions>;

/// Reads the command line. If it asks for help or for the version, or is wrong, there is nothing left to do:
/// prints the help to `out` or the mistake to `err`, and returns the exit code.
std::variant<Request, ExitCode> read_command_line(int argc, const char* const* argv, std::ostream& out,
                                                  std::ostream& err);

} // namespace cli
