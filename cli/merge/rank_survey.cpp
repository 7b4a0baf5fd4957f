// SPDX-License-Identifier: MIT
#include "merge/rank_survey.hpp"

#include "merge/rank_file.hpp"

#include <algorithm>
#include <utility>

namespace cli {

namespace {

class Surveyor {
public:
  explicit Surveyor(std::string path) : file_(path) { rank_.path = std::move(path); }

  /// Returns what was read before the first error, if that is enough to be useful.
  RankReportFile read(std::vector<std::string>& errors) {
    read_header();
    try {
      while (const auto line = file_.next()) {
        look_at(*line);
        ++rank_.lines;
      }
    } catch (const RankFileError& error) {
      errors.emplace_back(error.what());
      rank_.ended = true; // as far as is known
    }
    return std::move(rank_);
  }

private:
  void read_header() {
    const auto line = file_.next();
    if (!line)
      file_.fail("the file is empty or ends in its first line: the rank died before it wrote a report");
    RankLine first = file_.read(*line);
    if (auto* const header = std::get_if<RankHeader>(&first))
      rank_.header = std::move(*header);
    else
      file_.fail("this is not the report of a rank: its first line has no \"rank_report\"");
    rank_.lines = 1;
  }

  void look_at(std::string_view line) {
    if (line.starts_with("{\"wait\"")) return; // changes nothing here
    RankLine read = file_.read(line);
    if (const auto* const sample = std::get_if<ClockLine>(&read)) {
      try {
        rank_.clock.add(*sample);
      } catch (const RankLineError& error) {
        file_.fail(error.what());
      }
    } else if (const auto* const clock = std::get_if<DeviceClockLine>(&read)) {
      rank_.device_uncertainty = std::max(rank_.device_uncertainty, clock->uncertainty);
    } else if (auto* const end = std::get_if<EndLine>(&read)) {
      rank_.ended = true;
      rank_.why = std::move(end->why);
    } else if (const auto* const span = std::get_if<SpanLine>(&read)) {
      rank_.first = std::min(rank_.first, span->begin);
      rank_.last = std::max(rank_.last, span->begin);
    }
  }

  RankFile file_;
  RankReportFile rank_;
};

void take(Job& job, RankReportFile rank) {
  if (job.size == 0) job.size = rank.header.size;
  if (rank.header.size != job.size)
    throw RankFileError(rank.path + ":1: the job of this rank has " + std::to_string(rank.header.size) +
                        " ranks, but the job of the first file has " + std::to_string(job.size) +
                        ": name the reports of one job");
  job.ranks.push_back(std::move(rank));
}

void sort_by_rank(Job& job) {
  std::stable_sort(job.ranks.begin(), job.ranks.end(), [](const RankReportFile& a, const RankReportFile& b) {
    return a.header.rank < b.header.rank;
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    RankReportFile& rank = job.ranks[i];
    if (kept != 0 && job.ranks[kept - 1].header.rank == rank.header.rank) {
      job.errors.push_back(rank.path + ":1: rank " + std::to_string(rank.header.rank) + " is already in " +
                           job.ranks[kept - 1].path + ": name one of the two files");
      continue;
    }
    if (kept != i) job.ranks[kept] = std::move(rank);
    ++kept;
  }
  job.ranks.resize(kept);
}

/// An empty name says nothing about the host.
bool has_clock_of(const RankHeader& zero, const RankHeader& rank) {
  return rank.rank == 0 || (!rank.host.empty() && rank.host == zero.host);
}

/// Decides how each rank is aligned, and finds the begin of the job.
void align(Job& job) {
  const RankHeader* const zero =
      !job.ranks.empty() && job.ranks[0].header.rank == 0 ? &job.ranks[0].header : nullptr;
  job.begin = std::numeric_limits<long long>::max();
  for (RankReportFile& rank : job.ranks) {
    if (rank.clock.empty())
      rank.aligned =
          zero != nullptr && has_clock_of(*zero, rank.header) ? Aligned::same_host : Aligned::not_at_all;
    if (!rank.has_spans()) continue;
    rank.uncertainty = rank.device_uncertainty + rank.clock.uncertainty(rank.first, rank.last);
    if (rank.aligned != Aligned::not_at_all) job.begin = std::min(job.begin, rank.reference(rank.first));
  }
  for (RankReportFile& rank : job.ranks) {
    if (rank.aligned != Aligned::not_at_all || !rank.has_spans()) continue;
    if (job.begin == std::numeric_limits<long long>::max()) job.begin = rank.first;
    rank.shift = job.begin - rank.first;
  }
  if (job.begin == std::numeric_limits<long long>::max()) job.begin = 0;
}

} // namespace

std::vector<unsigned> Job::missing(std::size_t most) const {
  std::vector<unsigned> missing;
  auto next = ranks.begin();
  for (unsigned rank = 0; rank < size && missing.size() < most; ++rank) {
    if (next != ranks.end() && next->header.rank == rank)
      ++next;
    else
      missing.push_back(rank);
  }
  return missing;
}

Job survey(const std::vector<std::string>& paths) {
  Job job;
  for (const std::string& path : paths) {
    try {
      take(job, Surveyor(path).read(job.errors));
    } catch (const RankFileError& error) {
      job.errors.emplace_back(error.what());
    }
  }
  sort_by_rank(job);
  align(job);
  return job;
}

} // namespace cli
