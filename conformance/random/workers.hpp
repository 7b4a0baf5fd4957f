// SPDX-License-Identifier: MIT
// Runs many seeds in several worker processes. The processes start one at a time, because a device can take
// seconds to create their contexts. A seed that ends its process, or hangs, runs once more in a process of
// its own. If it ends that one too, the end is part of its answers.
#pragma once

#include "worker.hpp"

#include <vector>

namespace conformance {

struct RunOptions {
  std::string library = "libcuda.so.1";
  std::vector<std::uint64_t> seeds;
  int jobs = 1;
  std::chrono::seconds time_limit = std::chrono::hours(24); ///< then the seeds that are left are not run
};

/// Gives the answers of each seed to the sink, in any order. Throws NoDriver if the library or the
/// device cannot be used.
void run_seeds(const RunOptions&,
               const std::function<void(std::uint64_t seed, const std::string& answers)>& sink);

} // namespace conformance
