// SPDX-License-Identifier: MIT
// The ranks of a job as a picture.
#pragma once

#include "merge/rank_survey.hpp"
#include "merge/rank_table.hpp"

#include <string>
#include <vector>

namespace cli {

/// Draws at most four ranks, the latest ones first, around the run of the stage `latest` in which the others
/// waited longest for a rank. Without such a stage: the begin of the job. Reads the reports of these ranks.
std::string ranks_svg(const Job& job, const RankTable& table, const std::vector<StageOverRanks>& stages,
                      const StageOverRanks* latest);

} // namespace cli
