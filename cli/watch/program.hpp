// SPDX-License-Identifier: MIT
// Which programs can be watched, and where the auditing library is.
#pragma once

#include "exit_code.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace cli {

/// Why a program cannot be started, and the exit code that says so.
class CannotStart : public std::runtime_error {
public:
  CannotStart(ExitCode code, const std::string& why) : std::runtime_error(why), code_(code) {}
  ExitCode code() const { return code_; }

private:
  ExitCode code_;
};

struct WatchableProgram {
  std::string path;           // that the shell would run
  std::string binary, loader; // of that file or its interpreter; empty if it cannot be read
};

/// Finds the program with this name. Throws CannotStart if there is none, or if the loader would not load an
/// auditing library into the program.
WatchableProgram watchable_program(const std::string& name);

/// How many bytes of static thread-local memory the program and its libraries may need.
std::uint64_t static_storage_of(const WatchableProgram& program);

/// The auditing library: the one that CUEVENT_WATCH_LIBRARY names, or the one of this build or installation.
std::string auditing_library();

} // namespace cli
