// SPDX-License-Identifier: MIT
// The spans and waits of a rank, with its names resolved and its times on the clock of the job.
#pragma once

#include "merge/rank_file.hpp"
#include "merge/rank_survey.hpp"

#include <string>
#include <unordered_map>
#include <vector>

namespace cli {

/// Calls a visitor for each line of a report, in their order:
///
/// - `stage(number, name)` and `stream(number, name)`; a span comes after its names;
/// - `missing(line)`;
/// - `span(line, begin, end)` and `wait(line, departure, arrival)`, in nanoseconds since the job began.
class RankReader {
public:
  RankReader(const Job& job, const RankReportFile& rank) : job_(job), rank_(rank), file_(rank.path) {}

  /// Reads the lines that the survey has read: it has not seen the clock samples of later ones. Throws
  /// RankFileError at the first line that is wrong. What was read before that has been visited.
  /// `visitor.stage()` and `visitor.missing()` return false if there are too many stages or missing runs.
  template <class Visitor>
  void read(Visitor& visitor) {
    for (std::size_t line = 0; line < rank_.lines; ++line) {
      const auto text = file_.next();
      if (!text) break;
      std::visit([&](const auto& each) { take(each, visitor); }, file_.read(*text));
    }
  }

private:
  static constexpr std::size_t most_streams = 4096;

  long long time(long long here) const { return rank_.reference(here) - job_.begin; }
  void require(bool holds, const char* what) const {
    if (!holds) file_.fail(what);
  }
  void require_stage(unsigned stage) const {
    require(stage < stages_, "the stage has no name yet: the line with its name comes first");
  }
  void require_stream(unsigned stream) const {
    require(stream < ends_.size(), "the stream has no name yet: the line with its name comes first");
  }

  template <class Visitor>
  void take(const StageName& line, Visitor& visitor) {
    require(line.stage == stages_, "the numbers of stages are 0, 1, 2 and so on, in this order");
    ++stages_;
    require(visitor.stage(line.stage, line.name), "the job has too many stages: use fewer different names");
  }
  template <class Visitor>
  void take(const StreamName& line, Visitor& visitor) {
    require(line.stream <= ends_.size(), "the numbers of streams are 0, 1, 2 and so on, in this order");
    require(line.stream < most_streams, "the rank has too many streams: the report is damaged");
    if (line.stream == ends_.size()) ends_.push_back(rank_.first);
    visitor.stream(line.stream, line.name);
  }
  template <class Visitor>
  void take(const MissingLine& line, Visitor& visitor) {
    require_stage(line.stage);
    require(visitor.missing(line), "the stage has too many missing runs: the report is damaged");
  }
  template <class Visitor>
  void take(const SpanLine& line, Visitor& visitor) {
    require_stage(line.stage);
    require_stream(line.stream);
    require(line.end >= ends_[line.stream],
            "the span ends before an earlier span of its stream: write spans in the order of their ends");
    require(line.begin >= rank_.first, "the line has two begins: the report is damaged");
    ends_[line.stream] = line.end;
    visitor.span(line, time(line.begin), time(line.end));
  }
  template <class Visitor>
  void take(const WaitLine& line, Visitor& visitor) {
    require_stream(line.from_stream);
    require_stream(line.to_stream);
    require(line.departure >= rank_.first, "the wait departs before all spans: the report is damaged");
    visitor.wait(line, time(line.departure), time(line.arrival));
  }
  template <class Line, class Visitor>
  void take(const Line&, Visitor&) {} // the survey has read it

  const Job& job_;
  const RankReportFile& rank_;
  RankFile file_;
  unsigned stages_ = 0;
  std::vector<long long> ends_; // of the last span of each stream
};

} // namespace cli
