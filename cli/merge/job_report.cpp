// SPDX-License-Identifier: MIT
#include "merge/job_report.hpp"

#include "json_text.hpp"

#include "core/name_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using cuevent::printable;

constexpr std::size_t most_listed = 16; // ranks in a text

double microseconds(double nanoseconds) { return nanoseconds / 1000; }
double microseconds(long long nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

const char* text_of(Aligned aligned) {
  switch (aligned) {
  case Aligned::by_samples:
    return "samples";
  case Aligned::same_host:
    return "same host as rank 0";
  case Aligned::not_at_all:
    break;
  }
  return "not aligned";
}

Json json_of(const Job& job, const std::vector<StageOverRanks>& stages, const RankTable& table) {
  const auto rank_of = [&](std::size_t index) { return job.ranks[index].header.rank; };
  Json ranks = Json::array();
  for (const RankReportFile& rank : job.ranks) {
    Json about = {{"rank", rank.header.rank},
                  {"host", rank.header.host},
                  {"device", rank.header.device},
                  {"file", rank.path},
                  {"ended", rank.ended && rank.why.empty()},
                  {"clock",
                   {{"aligned", text_of(rank.aligned)},
                    {"samples", rank.clock.size()},
                    {"offset_us", microseconds(rank.clock.offset())},
                    {"drift_ppm", rank.clock.drift_ppm()},
                    {"uncertainty_us", microseconds(rank.uncertainty)}}}};
    if (!rank.why.empty()) about["why"] = rank.why;
    ranks.push_back(std::move(about));
  }
  Json all_stages = Json::array();
  for (const StageOverRanks& stage : stages) {
    Json last = Json::array();
    for (const StageOverRanks::Last& of_rank : stage.last)
      last.push_back(
          {{"rank", rank_of(of_rank.rank)}, {"runs", of_rank.runs}, {"lead_us", microseconds(of_rank.lead)}});
    Json about = {{"name", stage.name},
                  {"ranks", stage.ranks},
                  {"runs", stage.runs},
                  {"missing", stage.missing},
                  {"dropped", stage.dropped},
                  {"mean_us", microseconds(stage.mean)},
                  {"p50_us", microseconds(stage.p50)},
                  {"p99_us", microseconds(stage.p99)}};
    if (stage.ranks != 0)
      about["slowest"] = {{"rank", rank_of(stage.slowest)},
                          {"mean_us", microseconds(stage.slowest_mean)},
                          {"over_p50_us", microseconds(stage.slowest_mean - stage.p50)}};
    if (stage.ranks != 0)
      about["fastest"] = {{"rank", rank_of(stage.fastest)}, {"mean_us", microseconds(stage.fastest_mean)}};
    about["compared"] = stage.compared;
    about["decided"] = stage.decided;
    about["last"] = std::move(last);
    if (const auto straggler = stage.straggler()) about["straggler"] = rank_of(straggler->rank);
    all_stages.push_back(std::move(about));
  }
  return {{"size", job.size},
          {"reports", job.ranks.size()},
          {"missing_ranks", job.missing(job.size)},
          {"errors", job.errors},
          {"all_runs_compared", table.has_all_runs()},
          {"ranks", std::move(ranks)},
          {"stages", std::move(all_stages)}};
}

void print_table(const Job& job, const std::vector<StageOverRanks>& stages) {
  std::printf("\n  %-16s %6s %9s %10s %10s %10s   %-20s  %s\n", "times in us", "ranks", "runs", "mean", "p50",
              "p99", "slowest, over p50", "last most often");
  for (const StageOverRanks& stage : stages) {
    std::printf("  %-16s %6zu %9llu", printable(stage.name).c_str(), stage.ranks,
                static_cast<unsigned long long>(stage.runs));
    if (stage.ranks == 0) {
      std::puts("");
      continue;
    }
    char slowest[64];
    std::snprintf(slowest, sizeof slowest, "rank %u, %+.2f", job.ranks[stage.slowest].header.rank,
                  microseconds(stage.slowest_mean - stage.p50));
    std::printf(" %10.2f %10.2f %10.2f   %-20s  ", microseconds(stage.mean), microseconds(stage.p50),
                microseconds(stage.p99), slowest);
    if (stage.last.empty())
      std::puts(stage.compared == 0 ? "-" : "the clocks cannot tell");
    else
      std::printf("rank %u, in %llu of %llu runs, by %.2f\n", job.ranks[stage.last[0].rank].header.rank,
                  static_cast<unsigned long long>(stage.last[0].runs),
                  static_cast<unsigned long long>(stage.compared), microseconds(stage.last[0].lead));
  }
}

/// The stage in which the others wait for this rank, such as a sum over all ranks: the late rank has the
/// shortest one, because it comes last. Nothing if there is no such stage.
const StageOverRanks* waiting_stage(const std::vector<StageOverRanks>& stages, std::size_t late) {
  const StageOverRanks* waiting = nullptr;
  const auto longer = [](const StageOverRanks& stage) { return stage.p50 - stage.fastest_mean; };
  for (const StageOverRanks& stage : stages)
    if (stage.ranks > 1 && stage.fastest == late && stage.slowest != late &&
        (waiting == nullptr || longer(stage) > longer(*waiting)))
      waiting = &stage;
  return waiting;
}

std::string list_of(const std::vector<unsigned>& ranks, std::size_t all) {
  std::string text;
  for (const unsigned rank : ranks)
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return all > ranks.size() ? text + " and " + std::to_string(all - ranks.size()) + " more" : text;
}

/// One line for all ranks of which this is true.
template <class Is>
void print_ranks(const Job& job, const char* what, Is is) {
  std::vector<unsigned> ranks;
  std::size_t all = 0;
  for (const RankReportFile& rank : job.ranks) {
    if (!is(rank)) continue;
    ++all;
    if (ranks.size() < most_listed) ranks.push_back(rank.header.rank);
  }
  if (all != 0) std::printf("  %s: rank %s\n", what, list_of(ranks, all).c_str());
}

void print_summary(const Job& job, const std::vector<StageOverRanks>& stages, const RankTable& table) {
  std::puts("");
  if (const StageOverRanks* const stage = latest_stage(stages)) {
    const StageOverRanks::Last straggler = *stage->straggler();
    std::printf(
        "  Rank %u is late: it was the last to end \"%s\" in %llu of %llu runs, %.2f us after the next "
        "rank.\n",
        job.ranks[straggler.rank].header.rank, printable(stage->name).c_str(),
        static_cast<unsigned long long>(straggler.runs), static_cast<unsigned long long>(stage->compared),
        microseconds(straggler.lead));
    if (const StageOverRanks* const waiting = waiting_stage(stages, straggler.rank))
      std::printf(
          "  The others wait for it in \"%s\": %.2f us on average in rank %u, and %.2f us in rank %u.\n",
          printable(waiting->name).c_str(), microseconds(waiting->slowest_mean),
          job.ranks[waiting->slowest].header.rank, microseconds(waiting->fastest_mean),
          job.ranks[straggler.rank].header.rank);
  } else {
    std::puts("  No rank is late: none was the last one in two thirds of the runs of a stage.");
  }
  long long uncertainty = 0;
  double drift = 0;
  bool drift_is_known = false;
  for (const RankReportFile& rank : job.ranks) {
    uncertainty = std::max(uncertainty, rank.uncertainty);
    drift = std::max(drift, std::abs(rank.clock.drift_ppm()));
    drift_is_known = drift_is_known || rank.clock.size() > 1;
  }
  std::printf("  The clocks are aligned to +-%.2f us.", microseconds(uncertainty));
  if (drift_is_known) std::printf(" They drift by up to %.1f ppm.", drift);
  std::puts("");
  if (const std::size_t missing = job.size - job.ranks.size(); missing != 0)
    std::printf("  No report: rank %s\n", list_of(job.missing(most_listed), missing).c_str());
  print_ranks(job, "The report has no end, because the rank died or is still running",
              [](const RankReportFile& rank) { return !rank.ended; });
  for (std::size_t i = 0, printed = 0; i < job.ranks.size() && printed < most_listed; ++i)
    if (!job.ranks[i].why.empty()) {
      std::printf("  Rank %u failed: %s\n", job.ranks[i].header.rank, printable(job.ranks[i].why).c_str());
      ++printed;
    }
  print_ranks(
      job, "No clock samples, but the same host name as rank 0, so the clock counts as the same",
      [](const RankReportFile& rank) { return rank.aligned == Aligned::same_host && rank.header.rank != 0; });
  print_ranks(job, "No clock samples, so it is not compared with the others, and begins with them",
              [](const RankReportFile& rank) { return rank.aligned == Aligned::not_at_all; });
  for (const StageOverRanks& stage : stages)
    if (stage.missing != 0 || stage.dropped != 0)
      std::printf("  \"%s\": %llu runs were not kept by their timers, and %llu were not timed\n",
                  printable(stage.name).c_str(), static_cast<unsigned long long>(stage.missing),
                  static_cast<unsigned long long>(stage.dropped));
  if (!table.has_all_runs())
    std::printf("  Only the first %zu runs of all stages together are compared between ranks.\n",
                RankTable::most_runs);
}

} // namespace

const StageOverRanks* latest_stage(const std::vector<StageOverRanks>& stages) {
  const StageOverRanks* latest = nullptr;
  double most = 0;
  for (const StageOverRanks& stage : stages) {
    const auto straggler = stage.straggler();
    if (!straggler) continue;
    const double time = straggler->lead * static_cast<double>(straggler->runs);
    if (latest != nullptr && time <= most) continue;
    latest = &stage;
    most = time;
  }
  return latest;
}

std::string report_json(const Job& job, const std::vector<StageOverRanks>& stages, const RankTable& table) {
  return json_text(json_of(job, stages, table));
}

void print_report(const Job& job, const std::vector<StageOverRanks>& stages, const RankTable& table) {
  std::printf("%zu reports of %u ranks\n", job.ranks.size(), job.size);
  print_table(job, stages);
  print_summary(job, stages, table);
}

} // namespace cli
