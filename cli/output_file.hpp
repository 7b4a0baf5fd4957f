// SPDX-License-Identifier: MIT
// Files that are written whole or not at all.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace cli {

/// what() reads "trace.json: No space left on device".
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Writes the file. One that was there is replaced once the new one is complete, so that a full disk costs
/// neither. Throws OutputError.
void write_file(const std::string& path, std::string_view content);

/// Whether write_file would write both paths to one file, however they are spelled.
bool are_same_file(const std::string& a, const std::string& b);

} // namespace cli
