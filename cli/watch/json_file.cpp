// SPDX-License-Identifier: MIT
#include "watch/json_file.hpp"

#include "json_text.hpp"
#include "report/printable.hpp"
#include "watch/program.hpp"

namespace cli {

JsonFile::JsonFile(const std::string& path) {
  try {
    if (!path.empty()) file_.emplace(path);
  } catch (const OutputError& error) {
    throw CannotStart(usage, error.what());
  }
}

bool JsonFile::write(const nlohmann::ordered_json& json) { return write_text(json_text(json) + "\n"); }

bool JsonFile::write_text(const std::string& text) {
  try {
    file_->write(text);
    file_->finish();
    return true;
  } catch (const OutputError& error) {
    watch::print_text(std::string("cuevent watch: ") + error.what() + '\n');
    return false;
  }
}

} // namespace cli
