// SPDX-License-Identifier: MIT
// The ranks of a job by what they wait for.
#pragma once

#include "merge/hang_job.hpp"

#include <string>
#include <vector>

namespace cli {

struct HangGroup {
  std::string what;               // "waiting in AllReduce number 17"
  std::vector<std::size_t> ranks; // places in HangJob::reports
};

/// The largest group first.
std::vector<HangGroup> groups_of(const HangJob& job);

/// "rank 3", "ranks 0-2, 4-7", or some processes without ranks.
std::string ranks_text(const HangJob& job, const std::vector<std::size_t>& reports);
/// "0-2, 4-7"
std::string ranges_text(const std::vector<unsigned>& ranks);

/// "its thread 12 (python3) has been inside cuStreamSynchronize for 30 s at train.py:88 in step"
std::string thread_text(const HangThread& thread);

} // namespace cli
