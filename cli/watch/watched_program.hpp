// SPDX-License-Identifier: MIT
// The variables with which a program has to start, so that the loader puts the auditor into it.
#pragma once

#include "stand_in.hpp"
#include "watch/watch.hpp"

#include <string>
#include <sys/types.h>

namespace cli {

class WatchedProgram {
public:
  /// The program of the options, or one that somebody else starts. Throws CannotStart.
  explicit WatchedProgram(const WatchOptions& options);
  WatchedProgram(const WatchedProgram&) = delete;
  WatchedProgram& operator=(const WatchedProgram&) = delete;

  /// Starts it. `folder` is where it makes its files. Returns the number of the process.
  pid_t start(StandIn& stand_in, const std::string& folder) const;

  /// What somebody else has to put before a program.
  std::string variables(const std::string& folder) const;

private:
  const WatchOptions& options_;
  std::string path_;     // empty if somebody else starts it
  std::string auditors_; // LD_AUDIT
  std::string tunables_; // GLIBC_TUNABLES
  unsigned features_;
};

} // namespace cli
