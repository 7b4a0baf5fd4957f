// SPDX-License-Identifier: MIT
// The recording of random programs, its answers, and the seeds of `cuevent check --random`, from any text.
#include "require.hpp"

#include "answer.hpp"
#include "comparison.hpp"
#include "recording.hpp"

#include <cstdint>
#include <string>
#include <string_view>

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto seeds = conformance::parse_seeds(text)) {
    require(seeds->first >= 1 && seeds->contain(seeds->first) && seeds->contain(seeds->last),
            "seeds begin at 1 and are in order");
    require(seeds->last - seeds->first <= 10'000'000, "the number of seeds is bounded");
  }
  if (const auto program = conformance::parse_recorded_line(text)) {
    const std::string written =
        std::to_string(program->seed) + " " + program->fingerprint + " " + program->answers;
    const auto again = conformance::parse_recorded_line(written);
    require(again.has_value(), "what was read can be written and read again");
    require(again->seed == program->seed && again->fingerprint == program->fingerprint &&
                again->answers == program->answers,
            "a line is the same when it is read again");
  }
  std::string together;
  for (const std::string& answer : conformance::split_answers(text)) {
    require(!answer.empty() && !conformance::long_form(answer).empty(), "each answer has a long form");
    together += answer;
  }
  require(together == text, "the answers are all of the text");
  require(conformance::differences(text, text).empty(), "answers do not differ from themselves");
  const std::string_view half = text.substr(0, size / 2);
  if (const auto found = conformance::differences(text, half); !found.empty())
    require(!conformance::explanation(conformance::program_of(1), text, found, "recorded").empty(),
            "a difference has an explanation");
  return 0;
}
