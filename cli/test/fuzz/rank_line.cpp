// SPDX-License-Identifier: MIT
// The lines of a rank's report, from any text, and the clock samples in them.
#include "require.hpp"

#include "merge/rank_clock.hpp"
#include "merge/rank_line.hpp"

#include <cstdint>
#include <vector>

using fuzz::require;

namespace {

void inspect(const cli::RankHeader& header) {
  require(header.rank < header.size, "a rank is less than the size");
}
void inspect(const cli::SpanLine& span) { require(span.begin <= span.end, "a span ends after it begins"); }
void inspect(const cli::WaitLine& wait) {
  require(wait.departure <= wait.arrival, "a wait arrives after it departs");
}
template <class Line>
void inspect(const Line&) {}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  cli::RankClock clock;
  std::vector<long long> times = {0};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    try {
      const cli::RankLine read = cli::read_rank_line(line);
      std::visit([](const auto& each) { inspect(each); }, read);
      if (const auto* const sample = std::get_if<cli::ClockLine>(&read)) {
        times.insert(times.end(), {sample->here, sample->here + 1});
        clock.add(*sample);
      }
      if (const auto* const span = std::get_if<cli::SpanLine>(&read))
        times.insert(times.end(), {span->begin, span->end});
    } catch (const cli::RankLineError& error) {
      require(std::string_view(error.what()).find(": ") != std::string_view::npos,
              "an error says what to do");
    }
  }
  for (const long long a : times)
    for (const long long b : times)
      if (a <= b) {
        require(clock.reference(a) <= clock.reference(b), "aligned times stay in their order");
        require(clock.uncertainty(a, b) >= 0, "no alignment is better than exact");
      }
  return 0;
}
