// SPDX-License-Identifier: MIT
#include "merge/hang_job.hpp"

#include "progress.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace cli {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// `cuevent watch` renews the report of a process that stands still every 30 seconds.
constexpr auto one_generation = 60s, too_old = 120s;

std::uint64_t collectives_of(const HangReport& report) {
  std::uint64_t count = 0;
  for (const HangCommunicator& each : report.communicators)
    count += each.sequence.submitted();
  return count;
}

bool replaces(const HangReport& report, const HangReport& other) {
  if (report.time > other.time + one_generation || other.time > report.time + one_generation)
    return report.time > other.time;
  return std::pair(collectives_of(report), report.time) > std::pair(collectives_of(other), other.time);
}

auto place_of(const HangReport& report) {
  return std::tuple(!report.rank, report.rank.value_or(0), report.host, report.rank ? 0 : report.process);
}

bool is_same(const HangReport& a, const HangReport& b) {
  return a.rank ? a.rank == b.rank : place_of(a) == place_of(b);
}

} // namespace

std::vector<unsigned> HangJob::missing() const {
  std::vector<bool> there(size);
  for (const HangReport& report : reports)
    if (report.rank && *report.rank < size) there[*report.rank] = true;
  std::vector<unsigned> missing;
  for (unsigned rank = 0; rank < size; ++rank)
    if (!there[rank]) missing.push_back(rank);
  return missing;
}

bool HangJob::is_stale(std::size_t report) const {
  return std::binary_search(stale.begin(), stale.end(), report);
}

std::chrono::nanoseconds HangJob::newest() const {
  std::chrono::nanoseconds newest{};
  for (const HangReport& report : reports)
    newest = std::max(newest, report.time);
  return newest;
}

std::string HangJob::name_of(std::size_t report) const {
  const HangReport& named = reports[report];
  if (named.rank) return "rank " + std::to_string(*named.rank);
  return "process " + std::to_string(named.process) + " of " + named.host;
}

HangJob read_hang_job(const std::vector<std::string>& files) {
  HangJob job;
  Progress progress("of " + std::to_string(files.size()) + " reports");
  for (std::size_t i = 0; i < files.size(); ++i) {
    progress.show(i);
    try {
      job.reports.push_back(read_hang_report(files[i]));
    } catch (const HangReportError& error) {
      job.left_out.emplace_back(error.what());
    }
  }
  std::stable_sort(job.reports.begin(), job.reports.end(),
                   [](const HangReport& a, const HangReport& b) { return place_of(a) < place_of(b); });
  std::vector<HangReport> kept;
  for (HangReport& report : job.reports) {
    if (kept.empty() || !is_same(kept.back(), report)) {
      kept.push_back(std::move(report));
      continue;
    }
    if (replaces(report, kept.back())) std::swap(report, kept.back());
    job.left_out.push_back(report.file + ": " + kept.back().file + " is another report of the rank");
  }
  job.reports = std::move(kept);
  const HangReport* newest = nullptr; // tells the size of the job: a job may have restarted with another one
  for (const HangReport& report : job.reports)
    if (report.rank && (newest == nullptr || report.time > newest->time)) newest = &report;
  if (newest != nullptr) job.size = newest->size;
  std::erase_if(job.reports, [&](const HangReport& report) {
    if (!report.rank || report.size == job.size) return false;
    job.left_out.push_back(report.file + ": its job has " + std::to_string(report.size) +
                           " ranks, but the job of the newest report has " + std::to_string(job.size));
    return true;
  });
  const auto newest_time = job.newest();
  for (HangReport& report : job.reports)
    report.is_outdated = report.moved > nanoseconds{} && report.moved < newest_time;
  for (std::size_t i = 0; i < job.reports.size(); ++i)
    if (job.reports[i].time + too_old < newest_time) job.stale.push_back(i);
  return job;
}

} // namespace cli
