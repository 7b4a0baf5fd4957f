// SPDX-License-Identifier: MIT
// Findings in the format of static analysis tools, SARIF 2.1.0.
#pragma once

#include <nlohmann/json.hpp>

namespace cli {

/// `found`: what `--json` writes.
nlohmann::ordered_json sarif(const nlohmann::ordered_json& found);

} // namespace cli
