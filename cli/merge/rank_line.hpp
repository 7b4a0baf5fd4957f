// SPDX-License-Identifier: MIT
// One line of a rank's report: docs/ranks.md has the format.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

namespace cli {

/// Of a job, as in docs/ranks.md.
constexpr unsigned most_ranks = 1 << 20;

struct RankHeader {
  unsigned rank = 0, size = 1;
  std::string host{}, device{};
};
struct StageName {
  unsigned stage = 0;
  std::string name{};
};
struct StreamName {
  unsigned stream = 0;
  std::string name{};
};
/// All times are nanoseconds on the clock of the rank's host, except for `reference`.
struct ClockLine {
  long long here = 0, reference = 0, uncertainty = 0;
};
struct DeviceClockLine {
  long long uncertainty = 0;
};
/// Before the next span of the stage: runs that are missing here, and runs at unknown places.
struct MissingLine {
  unsigned stage = 0;
  unsigned long long runs = 0, dropped = 0;
};
struct SpanLine {
  unsigned long long number = 0;
  unsigned stage = 0, stream = 0, depth = 0;
  long long begin = 0, end = 0;
};
struct WaitLine {
  unsigned long long from = 0, to = 0;
  unsigned from_stream = 0, to_stream = 0;
  long long departure = 0, arrival = 0;
};
struct EndLine {
  std::string why{}; // empty: complete
};
/// A kind of line that a later version may have.
struct OtherLine {};

using RankLine = std::variant<RankHeader, StageName, StreamName, ClockLine, DeviceClockLine, MissingLine,
                              SpanLine, WaitLine, EndLine, OtherLine>;

/// what() says what is wrong with the line, and what to do.
struct RankLineError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The first key names the kind of line. Unknown keys after it are ignored. Throws RankLineError.
RankLine read_rank_line(std::string_view text);

} // namespace cli
