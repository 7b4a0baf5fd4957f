// SPDX-License-Identifier: MIT
#include "merge/rank_table.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace cli {

namespace {

/// The smallest of the sorted values that is not below this share of them.
double percentile(const std::vector<double>& sorted, double share) {
  const auto count = static_cast<double>(sorted.size());
  const auto rank = static_cast<std::size_t>(std::max(0.0, share * count - 1e-9));
  return sorted[std::min(rank, sorted.size() - 1)];
}

} // namespace

std::optional<StageOverRanks::Last> StageOverRanks::straggler() const {
  if (last.empty() || decided < 2 || last.front().runs * 3 < compared * 2) return std::nullopt;
  return last.front();
}

std::optional<std::size_t> RankTable::stage(const std::string& name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  if (stages_.size() == most_stages) return std::nullopt;
  by_name_.emplace(name, stages_.size());
  stages_.push_back({name, std::vector<OfRank>(ranks_), {}});
  return stages_.size() - 1;
}

bool RankTable::add_missing(std::size_t rank, std::size_t stage, std::uint64_t runs, std::uint64_t dropped) {
  OfRank& of_rank = stages_[stage].ranks[rank];
  if (runs > most_missing - of_rank.missing || dropped > most_missing - of_rank.dropped) return false;
  of_rank.missing += runs;
  of_rank.dropped += dropped;
  return true;
}

void RankTable::add(std::size_t rank, std::size_t stage, long long duration, long long end,
                    std::optional<long long> uncertainty) {
  Stage& of_stage = stages_[stage];
  OfRank& of_rank = of_stage.ranks[rank];
  const std::uint64_t index = of_rank.runs++ + of_rank.missing;
  of_rank.total += static_cast<double>(duration);
  // Which runs were dropped is unknown, and so is the number of each later run.
  if (!uncertainty || of_rank.dropped != 0) return;
  if (index >= of_stage.runs.size()) {
    const std::uint64_t more = index + 1 - of_stage.runs.size();
    if (more > most_runs - runs_) {
      has_all_runs_ = false;
      return;
    }
    runs_ += more;
    of_stage.runs.resize(index + 1);
  }
  Run& run = of_stage.runs[index];
  const End mine{end, *uncertainty, static_cast<std::uint32_t>(rank)};
  if (end > run.last.time)
    run.second = std::exchange(run.last, mine);
  else if (end > run.second.time)
    run.second = mine;
}

std::vector<StageOverRanks> RankTable::result() const {
  std::vector<StageOverRanks> result;
  for (const Stage& stage : stages_) {
    StageOverRanks over{.name = stage.name};
    std::vector<double> means;
    double total = 0;
    for (std::size_t rank = 0; rank < stage.ranks.size(); ++rank) {
      const OfRank& of_rank = stage.ranks[rank];
      over.missing += of_rank.missing;
      over.dropped += of_rank.dropped;
      if (of_rank.runs == 0) continue;
      over.runs += of_rank.runs;
      const double mean = of_rank.total / static_cast<double>(of_rank.runs);
      if (means.empty() || mean > over.slowest_mean) {
        over.slowest = rank;
        over.slowest_mean = mean;
      }
      if (means.empty() || mean < over.fastest_mean) {
        over.fastest = rank;
        over.fastest_mean = mean;
      }
      means.push_back(mean);
      total += mean;
    }
    over.ranks = means.size();
    if (!means.empty()) {
      std::sort(means.begin(), means.end());
      over.mean = total / static_cast<double>(means.size());
      over.p50 = percentile(means, 0.5);
      over.p99 = percentile(means, 0.99);
    }
    std::map<std::size_t, StageOverRanks::Last> last;
    for (const Run& run : stage.runs) {
      over.compared += run.is_compared() ? 1 : 0;
      if (!run.is_decided()) continue;
      ++over.decided;
      StageOverRanks::Last& of_rank = last[run.last.rank];
      of_rank.rank = run.last.rank;
      ++of_rank.runs;
      of_rank.lead += static_cast<double>(run.last.time - run.second.time);
    }
    for (auto& [rank, of_rank] : last) {
      of_rank.lead /= static_cast<double>(of_rank.runs);
      over.last.push_back(of_rank);
    }
    std::stable_sort(over.last.begin(), over.last.end(),
                     [](const auto& a, const auto& b) { return a.runs > b.runs; });
    result.push_back(std::move(over));
  }
  return result;
}

std::optional<RankTable::Period> RankTable::worst_run(std::size_t stage) const {
  const std::vector<Run>& runs = stages_[stage].runs;
  const auto lead = [&](std::size_t i) {
    return runs[i].is_compared() ? runs[i].last.time - runs[i].second.time : -1;
  };
  std::size_t worst = 0;
  for (std::size_t i = 1; i < runs.size(); ++i)
    if (lead(i) > lead(worst)) worst = i;
  if (runs.empty() || lead(worst) < 0) return std::nullopt;
  constexpr std::size_t runs_before = 4; // so that a short loop of the stage is in it
  std::size_t first = worst < runs_before ? worst : worst - runs_before;
  while (!runs[first].has_end())
    ++first;
  // On several streams, the runs before may end later, and the run after earlier, if it is not missing.
  const long long begin = worst < runs_before ? 0 : std::min(runs[first].last.time, runs[worst].second.time);
  const long long end = std::max(runs[worst].last.time, runs[std::min(worst + 1, runs.size() - 1)].last.time);
  const long long length = std::max(end - begin, 1LL);
  return Period{std::max(0LL, begin - length / 20), end + length / 20};
}

long long RankTable::first_runs_end(std::size_t runs) const {
  long long end = 1;
  for (const Stage& stage : stages_) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < stage.runs.size() && found < runs; ++i) {
      if (!stage.runs[i].has_end()) continue;
      ++found;
      end = std::max(end, stage.runs[i].last.time);
    }
    if (found != 0) break;
  }
  return end;
}

} // namespace cli
