// SPDX-License-Identifier: MIT
#include "watch/annotations.hpp"

#include "report/terminal.hpp"
#include "watch/finding_level.hpp"
#include "watch/percent_encoding.hpp"

#include <filesystem>
#include <string_view>

namespace cli {

namespace {

/// A property ends at a comma or a colon too.
enum class Part { message, property };

std::string escaped(const std::string& text, Part part) {
  const std::string_view special = part == Part::property ? "%\n\r,:" : "%\n\r";
  return percent_encoded(text, [&](char c) { return special.find(c) == std::string_view::npos; });
}

} // namespace

std::string annotations(const nlohmann::ordered_json& found) {
  const std::string here = std::filesystem::current_path();
  std::string text;
  for (const auto& finding : found["findings"]) {
    const std::string rule = finding["rule"];
    text += std::string("::") + level_of(finding) + ' ';
    if (const auto& source = finding["source"]; source.is_object())
      text += "file=" + escaped(watch::path_from(here, source["file"], 0), Part::property) +
              ",line=" + std::to_string(source["line"].get<int>()) + ",";
    text += "title=" + escaped(rule, Part::property) + "::";
    std::string message = finding["sentence"];
    if (const unsigned long count = finding["count"]; count > 1)
      message += " (counted " + std::to_string(count) + " times)";
    message += "\nin " + finding["call"]["function"].get<std::string>();
    message += "\nto fix it: " + finding["fix"].get<std::string>();
    text += escaped(message, Part::message) + '\n';
  }
  for (const auto& hang : found.value("hangs", nlohmann::ordered_json::array()))
    text += "::error title=hang::" + escaped(hang_text(hang), Part::message) + '\n';
  return text;
}

} // namespace cli
