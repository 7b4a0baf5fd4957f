// SPDX-License-Identifier: MIT
// What `cuevent merge` compares between the ranks of a job that hangs, as JSON.
#pragma once

#include "rules/stream_work.hpp"

#include <nlohmann/json.hpp>

namespace watch {

/// The streams with collectives, in the order of their first ones. There is a position for each stream of the
/// report.
nlohmann::ordered_json communicators_json(const std::vector<CollectivePosition>& positions,
                                          const cuevent::FlightReport& report);

/// The findings, and whether each of them is work of NCCL, which waits for other ranks.
nlohmann::ordered_json causes_json(const std::vector<CollectivePosition>& positions,
                                   const cuevent::FlightReport& report);

} // namespace watch
