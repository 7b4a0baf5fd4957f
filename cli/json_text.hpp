// SPDX-License-Identifier: MIT
// JSON as text.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace cli {

/// A driver may give its device any name, in any encoding, and a file name may be any bytes: what is not
/// UTF-8 becomes U+FFFD. `indent` -1: one line.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = 2) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace cli
