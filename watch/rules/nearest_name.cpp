// SPDX-License-Identifier: MIT
#include "rules/nearest_name.hpp"

#include "../../environment/unknown_variables.hpp"

#include <algorithm>
#include <cctype>

namespace watch {

namespace {

std::string in_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

} // namespace

std::string meant_by(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string name = in_lower_case(word.substr(0, environment::longest));
  if (name.size() < 2) return {};
  std::string meant;
  auto least = static_cast<unsigned>(std::min<std::size_t>(4, name.size() / 2 + 1));
  for (const std::string& candidate : candidates) {
    const std::string known = in_lower_case(candidate.substr(0, environment::longest));
    const unsigned far =
        known.starts_with(name) ? 0 : environment::distance(known.c_str(), known.size(), name.c_str());
    if (far >= least) continue;
    least = far;
    meant = candidate;
  }
  return meant;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string meant = meant_by(word, candidates);
  return meant.empty() ? meant : " (did you mean " + meant + "?)";
}

} // namespace watch
