// SPDX-License-Identifier: MIT
// A file of findings, such as the one that `cuevent watch --json` writes.
#pragma once

#include "output_file.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace cli {

class JsonFile {
public:
  /// Nothing is written if the path is empty. Throws CannotStart if the file cannot be used.
  explicit JsonFile(const std::string& path);

  bool is_wanted() const { return file_.has_value(); }
  /// If it cannot be written, says why and returns false.
  bool write(const nlohmann::ordered_json& json);
  bool write_text(const std::string& text);

private:
  std::optional<OutputFile> file_;
};

} // namespace cli
