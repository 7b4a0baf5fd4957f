// SPDX-License-Identifier: MIT
// The folder in which watched processes make the files with their calls.
#pragma once

#include "report/folder.hpp"

#include <optional>
#include <string>

namespace cli {

/// Of this user alone. In memory, if there is such a file system with room.
class SharedFolder {
public:
  /// An empty name: a new folder, which is removed in the end. A folder that is named is made, unless it is
  /// there, and stays. Throws std::runtime_error.
  explicit SharedFolder(const std::string& named);
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder();

  const std::string& path() const { return folder_->path(); }
  const watch::Folder& folder() const { return *folder_; }
  /// Throws std::runtime_error if the folder was moved or replaced.
  void check() const;

private:
  void lock();

  std::optional<watch::Folder> folder_;
  /// However this command ends, the kernel gives the lock back, and the watched processes notice.
  watch::OpenFile lock_;
  bool is_ours_;
};

} // namespace cli
