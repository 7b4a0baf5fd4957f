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

/// Writes the file. An existing file is replaced once the new one is complete, so it survives a
/// full disk. Throws OutputError.
void write_file(const std::string& path, std::string_view content);

/// Whether both paths name one file, however they are written.
bool are_same_file(const std::string& a, const std::string& b);

} // namespace cli
