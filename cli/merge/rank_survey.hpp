// SPDX-License-Identifier: MIT
// The first look at the reports of a job: who is there, how the clocks are related, and when the job began.
#pragma once

#include "merge/rank_clock.hpp"
#include "merge/rank_line.hpp"

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace cli {

/// How the times of a rank become times of rank 0.
enum class Aligned {
  by_samples,
  same_host,  // as rank 0, by the name: their clock is the same
  not_at_all, // its first span is put where the job begins
};

struct RankReportFile {
  std::string path{};
  std::size_t lines = 0; // that were read without an error
  RankHeader header{};
  RankClock clock{};
  Aligned aligned = Aligned::by_samples;
  long long shift = 0;                                     // of a rank that is not aligned
  long long first = std::numeric_limits<long long>::max(); // on its own clock; the first begin of a span
  long long last = std::numeric_limits<long long>::min();  // and the last
  long long device_uncertainty = 0;                        // of its device's clock on its host's clock
  long long uncertainty = 0;                               // of its times on rank 0's clock, either way
  bool ended = false;                                      // has a line that says so
  std::string why{};                                       // it ended, if not because it was complete

  bool has_spans() const noexcept { return first <= last; }
  long long reference(long long here) const noexcept { return clock.reference(here) + shift; }
};

struct Job {
  unsigned size = 0;
  std::vector<RankReportFile> ranks{}; // by rank; those whose reports can be read
  std::vector<std::string> errors{};   // of reports that cannot be read, or not to their end
  long long begin = 0;                 // the first begin of a span, on rank 0's clock

  /// The ranks without a report, at most this many.
  std::vector<unsigned> missing(std::size_t most) const;
};

/// Reads everything but the waits.
Job survey(const std::vector<std::string>& paths);

} // namespace cli
