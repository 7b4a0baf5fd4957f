// SPDX-License-Identifier: MIT
// The file of recorded answers: one line for each seed, with the fingerprint of its program and the
// answers in their short form. Lines that begin with '#' say which driver answered.
#pragma once

#include "worker.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conformance {

struct Seeds {
  std::uint64_t first = 1, last = 0;

  bool contain(std::uint64_t seed) const { return first <= seed && seed <= last; }
  std::vector<std::uint64_t> all() const;
};

struct RecordedProgram {
  std::uint64_t seed = 0;
  std::string fingerprint; ///< of the program, to notice a changed generator
  std::string answers;
};

std::optional<Seeds> parse_seeds(std::string_view); ///< `N` is 1-N, `A-B`
std::string short_fingerprint(std::uint64_t seed);
std::string recorded_line(std::uint64_t seed, const std::string& answers);
std::optional<RecordedProgram>
    parse_recorded_line(std::string_view); ///< nothing for comments and damaged lines

struct Answering {                ///< who answers
  std::vector<std::string> about; ///< the device, the driver, the day
  int devices = 0;
  std::size_t leave_out(std::vector<std::uint64_t>& seeds) const; ///< those that need more devices; how many
};
Answering who_answers(const std::string& library); ///< throws NoDriver

} // namespace conformance
