// SPDX-License-Identifier: MIT
// The reports of the processes of a job that hangs.
#pragma once

#include "merge/hang_report.hpp"

#include <string>
#include <vector>

namespace cli {

struct HangJob {
  unsigned size = 0;                   // of the ranks; 0 if no report has one
  std::vector<HangReport> reports{};   // by rank, one for each; those without a rank are last
  std::vector<std::string> left_out{}; // "FILE: why"
  std::vector<std::size_t> stale{};    // in `reports`: much older than the newest one, and not compared

  std::vector<unsigned> missing() const;
  bool is_stale(std::size_t report) const;
  std::chrono::nanoseconds newest() const;
  /// "rank 3", or "process 12 of node7".
  std::string name_of(std::size_t report) const;
};

/// Reads all files. Of several reports of a rank, the newest counts, and of those made within a minute the
/// one with the most collectives: a loader of data may have inherited the rank.
HangJob read_hang_job(const std::vector<std::string>& files);

} // namespace cli
