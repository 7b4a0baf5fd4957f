// SPDX-License-Identifier: MIT
#include "merge/ranks_svg.hpp"

#include "merge/rank_reader.hpp"
#include "merge/timeline_picture.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace cli {

namespace {

using cuevent::DeviceTime;

constexpr std::size_t ranks_drawn = 4;
constexpr std::size_t most_slices = 4000; // in each rank
constexpr std::size_t most_rows = 12;     // of the table

/// From the run before the one in which the others waited longest to the run after it.
RankTable::Period period_of(const RankTable& table, const std::vector<StageOverRanks>& stages,
                            const StageOverRanks* latest) {
  if (latest != nullptr)
    if (const auto period = table.worst_run(static_cast<std::size_t>(latest - stages.data()))) return *period;
  return {0, table.first_runs_end(4)};
}

std::vector<std::size_t> chosen_ranks(const Job& job, const StageOverRanks* latest) {
  std::vector<std::size_t> ranks;
  const auto add = [&](std::size_t rank) {
    if (ranks.size() < ranks_drawn && std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
      ranks.push_back(rank);
  };
  if (latest != nullptr)
    for (std::size_t i = 0; i < std::min(latest->last.size(), ranks_drawn / 2); ++i)
      add(latest->last[i].rank);
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    add(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// The slices of one rank in the period.
class Collector {
public:
  Collector(std::vector<std::string> names, RankTable::Period period, unsigned rank, Timeline& timeline)
      : names_(std::move(names)), period_(period), rank_(rank), timeline_(timeline),
        first_track_(timeline.tracks.size()) {}

  bool stage(unsigned, const std::string& name) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    stages_.push_back(static_cast<std::size_t>(found - names_.begin()));
    return found != names_.end();
  }
  void stream(unsigned number, const std::string& name) {
    if (first_track_ + number == timeline_.tracks.size()) timeline_.tracks.emplace_back();
    timeline_.tracks[first_track_ + number].name = std::to_string(rank_) + ": " + name;
  }
  static bool missing(const MissingLine&) { return true; }
  void span(const SpanLine& line, long long begin, long long end) {
    if (end <= period_.begin || begin >= period_.end || slices_ == most_slices) return;
    ++slices_;
    timeline_.tracks[first_track_ + line.stream].slices.push_back(
        {.name = names_[stages_[line.stage]],
         .stage = cuevent::StageId(stages_[line.stage]),
         .span = line.number,
         .begin = time(begin),
         .end = time(end),
         .depth = line.depth});
  }
  void wait(const WaitLine& line, long long departure, long long arrival) {
    if (arrival >= period_.begin && departure < period_.end && waits_.size() < most_slices)
      waits_.push_back({line, time(departure), time(arrival)});
  }

  /// Puts the slices in order, and adds the arrows between them.
  void finish() {
    std::unordered_map<std::uint64_t, std::pair<std::size_t, std::size_t>> places;
    for (std::size_t i = first_track_; i < timeline_.tracks.size(); ++i) {
      auto& slices = timeline_.tracks[i].slices;
      std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
        return std::tie(a.begin, a.depth, a.span) < std::tie(b.begin, b.depth, b.span);
      });
      for (std::size_t j = 0; j < slices.size(); ++j)
        places.emplace(slices[j].span, std::pair(i, j));
    }
    for (const auto& [line, departure, arrival] : waits_) {
      const auto from = places.find(line.from), to = places.find(line.to);
      if (from == places.end() || to == places.end()) continue;
      timeline_.arrows.push_back({{from->second.first, from->second.second, departure},
                                  {to->second.first, to->second.second, arrival}});
    }
  }

private:
  static DeviceTime time(long long nanoseconds) { return DeviceTime(static_cast<double>(nanoseconds)); }
  struct Wait {
    WaitLine line;
    DeviceTime departure, arrival;
  };

  std::vector<std::string> names_; // of all stages
  const RankTable::Period period_;
  const unsigned rank_;
  Timeline& timeline_;
  const std::size_t first_track_;
  std::size_t slices_ = 0;
  std::vector<std::size_t> stages_;
  std::vector<Wait> waits_;
};

std::string rank_text(const Job& job, std::size_t index) {
  return std::to_string(job.ranks[index].header.rank);
}

PictureFrame::Row row_of(const Job& job, const StageOverRanks& stage) {
  const auto time = [](double nanoseconds) { return duration_markup(DeviceTime(nanoseconds)); };
  PictureFrame::Row row{stage.name, {std::to_string(stage.ranks)}};
  if (stage.ranks == 0) return row;
  for (const double each : {stage.mean, stage.p50, stage.p99})
    row.markup.push_back(time(each));
  row.markup.push_back("rank " + rank_text(job, stage.slowest) + ", " + time(stage.slowest_mean));
  row.markup.push_back(stage.last.empty() ? std::string(stage.compared == 0 ? "" : "undecided")
                                          : "rank " + rank_text(job, stage.last[0].rank) + ", in " +
                                                std::to_string(stage.last[0].runs) + " of " +
                                                std::to_string(stage.compared));
  return row;
}

} // namespace

std::string ranks_svg(const Job& job, const RankTable& table, const std::vector<StageOverRanks>& stages,
                      const StageOverRanks* latest) {
  const RankTable::Period period = period_of(table, stages, latest);
  std::vector<std::string> names;
  names.reserve(stages.size());
  for (const StageOverRanks& stage : stages)
    names.push_back(stage.name);
  Timeline timeline;
  const std::vector<std::size_t> ranks = chosen_ranks(job, latest);
  for (const std::size_t index : ranks) {
    Collector collector(names, period, job.ranks[index].header.rank, timeline);
    try {
      RankReader(job, job.ranks[index]).read(collector);
    } catch (const RankFileError&) { // is reported already; what comes before the error is drawn
    }
    collector.finish();
  }
  long long uncertainty = 0;
  bool simulated = false;
  for (const RankReportFile& rank : job.ranks) {
    uncertainty = std::max(uncertainty, rank.uncertainty);
    simulated = simulated || rank.header.device.find("simulated") != std::string::npos;
  }
  PictureFrame frame{.title = std::to_string(job.ranks.size()) + " of " + std::to_string(job.size) + " ranks",
                     .subtitle = std::string(simulated ? "Simulated: all times are modelled. " : "") +
                                 "The clocks are aligned to &#177;" +
                                 duration_markup(DeviceTime(static_cast<double>(uncertainty))),
                     .begin = DeviceTime(static_cast<double>(period.begin)),
                     .end = DeviceTime(static_cast<double>(period.end)),
                     .columns = {{"ranks", 290},
                                 {"mean", 380},
                                 {"p50", 470},
                                 {"p99", 560},
                                 {"slowest", 730},
                                 {"last most often", 960}}};
  if (latest != nullptr)
    frame.title += ": rank " + rank_text(job, latest->straggler()->rank) + " is late in " + latest->name;
  if (ranks.size() < job.ranks.size())
    frame.subtitle += "; " + std::to_string(ranks.size()) + " ranks are drawn";
  for (std::size_t i = 0; i < std::min(stages.size(), most_rows); ++i)
    frame.rows.push_back(row_of(job, stages[i]));
  return picture(timeline, frame);
}

} // namespace cli
