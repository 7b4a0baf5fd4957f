// SPDX-License-Identifier: MIT
#include "comparison.hpp"

#include "answer.hpp"

#include <algorithm>
#include <cstdio>

namespace conformance {

std::vector<Difference> differences(std::string_view expected, std::string_view here) {
  const auto expected_answers = split_answers(expected);
  const auto own_answers = split_answers(here);
  std::vector<Difference> found;
  const std::size_t both = std::min(expected_answers.size(), own_answers.size());
  for (std::size_t call = 0; call < both; ++call)
    if (expected_answers[call] != own_answers[call])
      found.push_back({call, expected_answers[call], own_answers[call]});
  if (expected_answers.size() != own_answers.size())
    found.push_back({both, both < expected_answers.size() ? expected_answers[both] : "",
                     both < own_answers.size() ? own_answers[both] : ""});
  return found;
}

std::string explanation(const Program& program, std::string_view expected_answers,
                        const std::vector<Difference>& all, std::string_view expected) {
  const auto answers = split_answers(expected_answers);
  const Difference& first = all.front();
  std::string text;
  char line[160];
  for (std::size_t call = 0; call < std::min(first.call, program.size()); ++call) {
    if (call >= answers.size() || answers[call].front() == left_out) continue;
    std::snprintf(line, sizeof line, "  %2zu  %-56s  %s\n", call + 1, text_of(program[call]).c_str(),
                  long_form(answers[call]).c_str());
    text += line;
  }
  if (first.call < program.size()) {
    std::snprintf(line, sizeof line, "> %2zu  %s\n", first.call + 1, text_of(program[first.call]).c_str());
    text += line;
  }
  std::snprintf(line, sizeof line, "      %-8.*s  %s\n      here      %s\n",
                static_cast<int>(expected.size()), expected.data(), long_form(first.expected).c_str(),
                long_form(first.here).c_str());
  return text + line;
}

} // namespace conformance
