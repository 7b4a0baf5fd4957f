// SPDX-License-Identifier: MIT
#include "check/answers.hpp"

namespace cli {

bool Transcript::is_of_simulator() const {
  return !about.empty() && about.front().starts_with("device: cuevent simulated device ");
}

void Transcript::add(std::string_view line) {
  if (line.starts_with("# ")) {
    about.emplace_back(line.substr(2));
  } else if (const auto equals = line.find(" = "); equals != std::string_view::npos) {
    answers.emplace(line.substr(0, equals), line.substr(equals + 3));
  }
}

std::optional<KnownDifference> known_difference_in(std::string_view line) {
  const auto colon = line.find(": ");
  if (line.starts_with("#") || colon == std::string_view::npos) return std::nullopt;
  const bool at_times = line.starts_with('?');
  const KnownDifference known{line.substr(at_times, colon - at_times), line.substr(colon + 2), at_times};
  if (known.prefix.empty() || known.reason.empty()) return std::nullopt; // it would explain every difference
  return known;
}

} // namespace cli
