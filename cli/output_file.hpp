// SPDX-License-Identifier: MIT
// Files that are written completely or not at all.
#pragma once

#include "new_file.hpp"
#include "report/folder.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cli {

/// what() reads "trace.json: No space left on device".
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns 0, or errno.
int write_all(int file, std::string_view content);

/// A file that is written piece by piece. The members throw OutputError.
class OutputFile {
public:
  /// `links`: whether the user has typed the name. A device or a pipe that the user names is written to.
  explicit OutputFile(std::string path, watch::Links links = watch::Links::follow);
  /// A file in a folder, whose last component is never followed.
  OutputFile(const watch::Folder& folder, const std::string& name);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Without finish(), nothing stays of what was written.
  ~OutputFile() = default;

  void write(std::string_view content);
  /// Replaces an existing file of this name, which survives a full disk until then.
  void finish();

private:
  void make();
  int descriptor() const;
  [[noreturn]] void fail(int error) const;

  std::string path_;
  watch::OutputPlace place_;
  std::optional<NewFile> file_;
  watch::OpenFile device_; // or a pipe
};

/// Writes the file. An existing file is replaced once the new one is complete, so it survives a
/// full disk. Throws OutputError.
void write_file(const std::string& path, std::string_view content, watch::Links links = watch::Links::follow);

/// Whether both paths name one file, however they are written.
bool are_same_file(const std::string& a, watch::Links a_links, const std::string& b, watch::Links b_links);

} // namespace cli
