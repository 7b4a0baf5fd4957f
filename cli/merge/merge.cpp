// SPDX-License-Identifier: MIT
#include "merge/merge.hpp"

#include "json_text.hpp"
#include "merge/hang_merge.hpp"
#include "merge/job_report.hpp"
#include "merge/merged_trace.hpp"
#include "merge/rank_reader.hpp"
#include "merge/rank_survey.hpp"
#include "merge/rank_table.hpp"
#include "merge/ranks_svg.hpp"
#include "output_file.hpp"
#include "progress.hpp"

#include "core/name_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace cli {

namespace {

constexpr std::size_t most_errors = 16; // that are printed

/// Hands the lines of one rank to the table and the trace.
class Merger {
public:
  Merger(const RankReportFile& rank, std::size_t index, RankTable& table, MergedTrace& trace)
      : index_(index), table_(table), trace_(trace) {
    if (rank.aligned != Aligned::not_at_all) uncertainty_ = rank.uncertainty;
    trace.begin_rank(rank);
  }

  bool stage(unsigned, const std::string& name) {
    const auto stage = table_.stage(name);
    if (!stage) return false;
    stages_.push_back(*stage);
    names_.push_back(json_text(name, -1));
    return true;
  }
  void stream(unsigned number, const std::string& name) { trace_.add_stream(number, name); }
  bool missing(const MissingLine& line) {
    return table_.add_missing(index_, stages_[line.stage], line.runs, line.dropped);
  }
  void span(const SpanLine& line, long long begin, long long end) {
    trace_.add_span(line, names_[line.stage], begin, end);
    table_.add(index_, stages_[line.stage], end - begin, end, uncertainty_);
  }
  void wait(const WaitLine& line, long long departure, long long arrival) {
    trace_.add_wait(line, departure, arrival);
  }

private:
  const std::size_t index_;
  RankTable& table_;
  MergedTrace& trace_;
  std::optional<long long> uncertainty_;
  std::vector<std::size_t> stages_; // of the table, by the rank's number
  std::vector<std::string> names_;  // as JSON
};

/// Each folder becomes its files rank*.json. Everything else stays.
std::vector<std::string> reports_in(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, failed)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("rank") && name.ends_with(".json")) found.push_back(entry.path().string());
    }
    if (found.empty()) found.push_back(path); // a file, or a mistake that is explained when it is read
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::string mistake_in(const MergeOptions& options, const std::vector<std::string>& files) {
  if (!options.trace_file.empty() && !options.svg_file.empty() &&
      are_same_file(options.trace_file, options.trace_links, options.svg_file, options.svg_links))
    return "--out and --svg name the same file: " + options.svg_file + "; name two files";
  for (const std::string& file : files)
    for (const auto& [output, links] :
         {std::pair(options.trace_file, options.trace_links), std::pair(options.svg_file, options.svg_links)})
      if (!output.empty() && are_same_file(file, watch::Links::follow, output, links))
        return output + " is both a report and an output file: name another output file with --out or --svg";
  return {};
}

} // namespace

ExitCode merge(const MergeOptions& options) {
  if (const auto hangs = hang_reports_in(options.files); !hangs.empty()) return merge_hangs(hangs, options);
  const std::vector<std::string> files = reports_in(options.files);
  if (const std::string mistake = mistake_in(options, files); !mistake.empty()) {
    std::fprintf(stderr, "cuevent: %s\n", cuevent::printable(mistake).c_str());
    return usage;
  }
  Job job = survey(files);
  RankTable table(job.ranks.size());
  const bool usable = !job.ranks.empty();
  if (usable) {
    MergedTrace trace(options.trace_file, options.trace_links);
    Progress progress("of " + std::to_string(job.ranks.size()) + " ranks");
    for (std::size_t i = 0; i < job.ranks.size(); ++i) {
      progress.show(i);
      Merger merger(job.ranks[i], i, table, trace);
      try {
        RankReader(job, job.ranks[i]).read(merger);
      } catch (const RankFileError& error) {
        job.errors.emplace_back(error.what()); // in a line that the survey has read: not reported yet
      }
    }
    trace.finish(json_text({{"title", std::to_string(job.size) + " ranks"}}, -1));
  }
  const std::vector<StageOverRanks> stages = table.result();
  if (usable && !options.svg_file.empty())
    write_file(options.svg_file, ranks_svg(job, table, stages, latest_stage(stages)), options.svg_links);

  for (std::size_t i = 0; i < std::min(job.errors.size(), most_errors); ++i)
    std::fprintf(stderr, "cuevent: %s\n", cuevent::printable(job.errors[i]).c_str());
  if (job.errors.size() > most_errors)
    std::fprintf(stderr, "cuevent: and %zu more errors like these\n", job.errors.size() - most_errors);
  if (options.json) {
    std::puts(report_json(job, stages, table).c_str());
  } else if (usable) {
    print_report(job, stages, table);
    for (const std::string& file : {options.trace_file, options.svg_file})
      if (!file.empty()) std::printf("  Written: %s\n", cuevent::printable(file).c_str());
  }
  return job.errors.empty() ? success : failure;
}

} // namespace cli
