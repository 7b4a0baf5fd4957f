// SPDX-License-Identifier: MIT
// JSON as text.
#pragma once

#include "core/name_text.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace cli {

/// A driver may give its device any name, in any encoding, and a file name may be any bytes: what is not
/// UTF-8 becomes U+FFFD, and characters that are not plain are written by their numbers. `indent` -1: one
/// line.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = 2) {
  std::string text;
  const auto take = [&](std::string_view piece) { text += piece; };
  cuevent::each_character(json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
                          take, [&](std::string_view piece) {
                            text += piece == "\n" ? "\n" : cuevent::json_escape(piece); // of the indent
                          });
  return text;
}

} // namespace cli
