// SPDX-License-Identifier: MIT
// Files that are written completely or not at all.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace cli {

/// what() reads "trace.json: No space left on device".
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file that is written piece by piece. The members throw OutputError.
class OutputFile {
public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Without finish(), removes what was written.
  ~OutputFile();

  void write(std::string_view content);
  /// Replaces an existing file of this name, which survives a full disk until then.
  void finish();

private:
  [[noreturn]] void fail(int error) const;

  std::string path_, target_, part_; // `part_` is empty if the file is a device or a pipe
  int file_ = -1;
};

/// Writes the file. An existing file is replaced once the new one is complete, so it survives a
/// full disk. Throws OutputError.
void write_file(const std::string& path, std::string_view content);

/// Whether both paths name one file, however they are written.
bool are_same_file(const std::string& a, const std::string& b);

} // namespace cli
