// SPDX-License-Identifier: MIT
// Who keeps the ranks of a job that hangs from going on: reports in, culprits out.
#pragma once

#include "merge/hang_job.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cli {

/// A rank for which others wait. `report` is its place in HangJob::reports.
struct HangCulprit {
  std::size_t report;
  std::string what;         // "has not submitted AllReduce number 17"
  std::uint64_t behind = 0; // collectives
};

/// The same collective of several ranks, which some of them have not submitted, or have not begun.
struct HangMeeting {
  std::size_t communicator;             // the place among the streams with collectives of each rank
  std::vector<std::size_t> ranks;       // that are compared: places in HangJob::reports
  std::uint64_t number = 0;             // of the collective, from 1
  std::string name;                     // that most of them have submitted
  std::vector<std::size_t> waiting{};   // ranks that have submitted this one, and do not move
  std::vector<std::size_t> late{};      // have not submitted it, or not begun it
  std::vector<std::size_t> different{}; // have submitted another one
  std::vector<std::size_t> moving{};    // of the late ones, still move
  std::string disagreement{};           // how the first one differs, if too few agree to say who is right
  std::vector<std::size_t> victims{};   // of the late ones, wait for others themselves
};

struct HangVerdict {
  std::vector<HangMeeting> meetings{};     // at which somebody waits
  std::vector<HangCulprit> culprits{};     // by rank
  std::vector<std::size_t> incomparable{}; // with collectives, but no common beginning with another rank
};

HangVerdict judge(const HangJob& job);

} // namespace cli
