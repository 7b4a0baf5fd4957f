// SPDX-License-Identifier: MIT
// The report of one rank as a file, read line by line.
#pragma once

#include "merge/rank_line.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// what() reads "rank3.json:17: the span ends before it begins: ...".
struct RankFileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads with bounded memory. Throws RankFileError.
class RankFile {
public:
  static constexpr std::size_t longest_line = 64 << 10; // in bytes

  explicit RankFile(std::string path);

  /// The next line, until the next call. Empty at the end, and at a last line without a newline, because its
  /// writer died.
  std::optional<std::string_view> next();

  /// Reads the line that next() has returned.
  RankLine read(std::string_view line) const;

  /// An error in that line.
  [[noreturn]] void fail(const std::string& what) const;

private:
  bool refill();

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> buffer_ = std::vector<char>(256 << 10);
  std::size_t begin_ = 0, end_ = 0; // what is read and not returned
  std::size_t line_ = 0;
};

} // namespace cli
