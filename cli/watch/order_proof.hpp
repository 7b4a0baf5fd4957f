// SPDX-License-Identifier: MIT
// Possible findings and candidates of `cuevent watch --order=all` that one hold alone proves.
#pragma once

#include "watch/jitter_runs.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace cli {

/// The two submissions of a finding, in their order.
struct SubmissionPair {
  watch::HoldPlace first, second;
};
SubmissionPair pair_of(const nlohmann::ordered_json& places);
/// Whether a run has held the first one, and has the second one, and both calls are the finding's.
bool has_pair(const nlohmann::ordered_json& holds, const nlohmann::ordered_json& finding,
              const SubmissionPair& pair);

using Deadline = std::chrono::steady_clock::time_point;

/// Holds the earlier submission of the pair, and compares the results. Empty if the finding is certain now,
/// else why it is not.
std::string prove_pair(JitterRuns& runs, nlohmann::ordered_json& finding, const SubmissionPair& pair,
                       Deadline deadline);

/// Does so for each possible finding. Marks what is proven in `findings`, and says so. Returns how many are.
std::size_t prove_findings(JitterRuns& runs, nlohmann::ordered_json& findings, Deadline deadline);

} // namespace cli
