// SPDX-License-Identifier: MIT
// Folders to which others may write, and the files in them. A folder is opened once, and all that is done
// in it is done through this descriptor: its name may lead to another folder later.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace watch {

/// what() names the file or folder, says what is wrong with it, and what to do.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A descriptor that is closed.
class OpenFile {
public:
  OpenFile() = default;
  explicit OpenFile(int number) : number_(number) {}
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OpenFile();
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// For fdopen() and the like, which close it.
  int release() { return std::exchange(number_, -1); }

private:
  int number_ = -1;
};

/// The names in an open folder, sorted. None if it cannot be read.
std::vector<std::string> names_in(int descriptor);

class Folder {
public:
  /// shared: its owner is this user or root, and others may write there only if it is sticky. own: nobody
  /// else may write there, nor replace it or a folder above it.
  enum class Kind { shared, own };

  /// Makes the folder, unless it is there. Throws Refused.
  Folder(const std::string& path, Kind kind);

  /// Absolute, without links.
  const std::string& path() const { return path_; }
  int descriptor() const { return file_.number(); }
  std::vector<std::string> names() const { return names_in(descriptor()); }
  /// Whether its path still leads to it.
  bool is_in_place() const;

private:
  std::string path_;
  OpenFile file_;
};

/// typed: a shell makes a pipe of `<(command)`, so one of this user or of root is read and waited for.
enum class Pipes { refused, typed };

/// Opens a file that is read. Its name may be a link that this user or root has made. Does not wait. Throws
/// Refused if the file is a folder, a pipe or a device.
OpenFile open_input(const std::string& path, Pipes pipes = Pipes::refused);

/// A place for a new file: the folder that it is in, and its name there.
struct OutputPlace {
  OpenFile folder;
  std::string name;
  bool is_device = false; // a device or a pipe, in which nothing is replaced
};

/// follow: the user has typed the name, so it may be a link that this user or root has made. replace:
/// nobody has typed it, so a link is replaced.
enum class Links { follow, replace };

/// Throws Refused.
OutputPlace output_place(const std::string& path, Links links);

/// Opens the device or pipe for writing. Not open if that fails: see errno.
OpenFile open_device(const OutputPlace& place);

} // namespace watch
