// SPDX-License-Identifier: MIT
// One text, one JSON and one picture of the processes of a job that hangs.
#pragma once

#include "merge/hang_groups.hpp"
#include "merge/hang_verdict.hpp"
#include "merge/merge.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cli {

nlohmann::ordered_json hang_json(const HangJob& job, const HangVerdict& verdict,
                                 const std::vector<HangGroup>& groups);
std::string hang_text(const HangJob& job, const HangVerdict& verdict, const std::vector<HangGroup>& groups);
std::string hang_svg(const HangJob& job, const HangVerdict& verdict, const std::vector<HangGroup>& groups);

/// The reports of the paths: a folder becomes its files hang-*.json. Empty if there are none.
std::vector<std::string> hang_reports_in(const std::vector<std::string>& paths);

ExitCode merge_hangs(const std::vector<std::string>& files, const MergeOptions& options);

} // namespace cli
