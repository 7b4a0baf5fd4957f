// SPDX-License-Identifier: MIT
// The trace of a job in the Chrome trace-event format, written while the reports are read.
#pragma once

#include "merge/rank_line.hpp"
#include "merge/rank_survey.hpp"
#include "output_file.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cli {

/// Each rank is a process, and each of its streams a thread. Times are nanoseconds since the begin of the
/// job.
class MergedTrace {
public:
  /// Writes to the file. An empty path: writes nothing.
  MergedTrace(const std::string& path, watch::Links links);

  /// The spans and waits of this rank follow.
  void begin_rank(const RankReportFile& rank);
  void add_stream(unsigned stream, const std::string& name);
  /// `stage` is the name as JSON.
  void add_span(const SpanLine& span, const std::string& stage, long long begin, long long end);
  void add_wait(const WaitLine& wait, long long departure, long long arrival);
  /// `about` is a JSON object.
  void finish(const std::string& about);

private:
  void write(bool all);
  void add_end_of_wait(const char* phase, unsigned stream, long long time);
  /// Different from the numbers of the processes, and between processes.
  std::uint64_t thread(unsigned stream) const { return first_thread_ + stream; }

  std::optional<OutputFile> file_;
  std::string text_;
  std::uint64_t process_ = 0, first_thread_ = 1 << 20, threads_ = 0, waits_ = 0;
};

} // namespace cli
