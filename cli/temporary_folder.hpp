// SPDX-License-Identifier: MIT
// A folder for files that a subcommand needs while it runs.
#pragma once

#include <string>

namespace cli {

/// In TMPDIR or /tmp, of this user alone, and removed in the end. Throws std::runtime_error.
struct TemporaryFolder {
  explicit TemporaryFolder(const std::string& prefix); // of its name
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  std::string path; // absolute
};

} // namespace cli
