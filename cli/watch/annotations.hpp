// SPDX-License-Identifier: MIT
// Findings as workflow commands of GitHub, which shows them at their lines.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace cli {

/// `found`: what `--json` writes. A line for each finding and each hang.
std::string annotations(const nlohmann::ordered_json& found);

} // namespace cli
