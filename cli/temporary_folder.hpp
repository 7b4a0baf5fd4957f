// SPDX-License-Identifier: MIT
// A folder for files that a subcommand needs while it runs.
#pragma once

#include "report/folder.hpp"

#include <string>
#include <vector>

namespace cli {

/// TMPDIR, /tmp and /dev/shm. Absolute. The first in which a file can be made is the right one.
std::vector<std::string> temporary_places();

/// In such a place, of this user alone, and removed in the end. Throws std::runtime_error.
struct TemporaryFolder {
  explicit TemporaryFolder(const std::string& prefix); // of its name
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  std::string path; // absolute

private:
  watch::OpenFile lock_;
};

} // namespace cli
