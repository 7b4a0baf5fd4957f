// SPDX-License-Identifier: MIT
// The stages of a job over its ranks: how long they take, and which rank is late.
#pragma once

#include "merge/rank_line.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cli {

/// The result for one stage. Durations are in nanoseconds.
struct StageOverRanks {
  std::string name{};
  std::size_t ranks = 0; // that have run it
  std::uint64_t runs = 0, missing = 0, dropped = 0;
  double mean = 0, p50 = 0, p99 = 0; // over the mean durations of the ranks
  std::size_t slowest = 0;           // index of the rank with the largest mean duration
  double slowest_mean = 0;
  std::size_t fastest = 0; // and with the smallest
  double fastest_mean = 0;

  std::uint64_t compared = 0; // runs that two or more ranks have
  std::uint64_t decided = 0;  // of these, runs in which the clocks tell which rank ended last
  struct Last {
    std::size_t rank = 0;   // index
    std::uint64_t runs = 0; // decided ones in which the rank was the last
    double lead = 0;        // the mean time from the end of the last rank but one to its end
  };
  std::vector<Last> last{}; // the most frequent first

  /// The rank that was the last one in at least two thirds of the compared runs, if there is one. More than
  /// half is not enough, because one of two equal ranks often has that by chance.
  std::optional<Last> straggler() const;
};

/// Collects the spans of one rank after the other. A run is the n-th time that a rank runs a stage. Ranks are
/// indices from 0.
class RankTable {
public:
  static constexpr std::size_t most_stages = 4096;
  static constexpr std::size_t most_runs = 1 << 20; // compared between ranks, over all stages
  /// Of one rank and stage: 12 days with a run each microsecond. The sum over all ranks stays in range.
  static constexpr std::uint64_t most_missing = std::uint64_t{1} << 40;

  explicit RankTable(std::size_t ranks) : ranks_(ranks) {}

  /// The stage with that name, or nothing if there are too many.
  std::optional<std::size_t> stage(const std::string& name);

  /// Adds nothing and returns false if the rank has more than `most_missing` of the stage then.
  [[nodiscard]] bool add_missing(std::size_t rank, std::size_t stage, std::uint64_t runs,
                                 std::uint64_t dropped);
  /// `end` is on the clock of rank 0. Without `uncertainty` the run is not compared with other ranks.
  void add(std::size_t rank, std::size_t stage, long long duration, long long end,
           std::optional<long long> uncertainty);

  std::vector<StageOverRanks> result() const;
  /// The time around the run in which the other ranks waited longest for the last rank: also some runs
  /// before, and the run after. Nothing if no run is compared.
  struct Period {
    long long begin = 0, end = 0;
  };
  std::optional<Period> worst_run(std::size_t stage) const;
  /// When the last of this number of runs ended, of the first stage that has runs. Runs that no rank has do
  /// not count.
  long long first_runs_end(std::size_t runs) const;
  bool has_all_runs() const noexcept { return has_all_runs_; }

private:
  static constexpr long long never = std::numeric_limits<long long>::min();
  struct End {
    long long time = never, uncertainty = 0;
    std::uint32_t rank = 0;
  };
  struct Run {
    End last, second;
    bool has_end() const noexcept { return last.time != never; }
    bool is_compared() const noexcept { return second.time != never; }
    bool is_decided() const noexcept {
      return is_compared() && last.time - second.time > last.uncertainty + second.uncertainty;
    }
  };
  struct OfRank {
    std::uint64_t runs = 0, missing = 0, dropped = 0;
    double total = 0;
  };
  struct Stage {
    std::string name;
    std::vector<OfRank> ranks;
    std::vector<Run> runs;
  };

  std::size_t ranks_;
  std::size_t runs_ = 0; // compared
  bool has_all_runs_ = true;
  std::vector<Stage> stages_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

} // namespace cli
