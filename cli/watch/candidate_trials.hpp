// SPDX-License-Identifier: MIT
// Candidates of `cuevent watch --order=all --jitter SEEDS --check COMMAND`: pairs of kernels that may use the
// same memory on two streams. Trying them costs runs of the program, so many are held in one run.
#pragma once

#include "watch/order_proof.hpp"

namespace cli {

/// How many candidates had which result.
struct CandidateCounts {
  std::size_t certain = 0;   // one hold alone changes the result
  std::size_t unchanged = 0; // the result stays the same
  std::size_t unproven = 0;  // the result changes, but not by this pair alone
  std::size_t missed = 0;    // the second kernel did not come while the first one was held
  std::size_t untried = 0;   // there was no time
};

/// Tries them in their order, the likeliest first. Those that are certain become findings. Says how many.
CandidateCounts try_candidates(JitterRuns& runs, nlohmann::ordered_json candidates,
                               nlohmann::ordered_json& findings, Deadline deadline);

} // namespace cli
