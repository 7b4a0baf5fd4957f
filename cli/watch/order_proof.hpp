// SPDX-License-Identifier: MIT
// Possible findings of `cuevent watch --order=all` that one hold alone proves.
#pragma once

#include "watch/jitter_runs.hpp"

namespace cli {

/// Holds the earlier of the two submissions of each possible finding, and compares the results. Marks what is
/// proven in `findings`, and says so. Returns how many are.
std::size_t prove_findings(JitterRuns& runs, nlohmann::ordered_json& findings);

} // namespace cli
