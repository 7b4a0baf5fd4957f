// SPDX-License-Identifier: MIT
// What `cuevent merge` prints about a job.
#pragma once

#include "merge/rank_survey.hpp"
#include "merge/rank_table.hpp"

#include <string>
#include <vector>

namespace cli {

/// The stage with a straggler, and where the straggler costs most time; or nothing.
const StageOverRanks* latest_stage(const std::vector<StageOverRanks>& stages);

std::string report_json(const Job& job, const std::vector<StageOverRanks>& stages, const RankTable& table);

/// The table of the stages, which rank is late, and what is missing, for people.
void print_report(const Job& job, const std::vector<StageOverRanks>& stages, const RankTable& table);

} // namespace cli
