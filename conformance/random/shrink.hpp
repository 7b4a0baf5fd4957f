// SPDX-License-Identifier: MIT
// Finds the shortest part of a program that two drivers answer differently. A part has other
// answers than the whole program, so both drivers have to be at hand: recorded answers do not help.
#pragma once

#include "comparison.hpp"
#include "program.hpp"
#include "worker.hpp"

namespace conformance {

struct ShrunkProgram {
  Program program;       ///< without any one of its calls, its first difference is gone
  std::string reference; ///< the answers
  std::string here;
};

/// Throws NoDriver. If the drivers agree on the program, the result has no calls.
ShrunkProgram shrink(std::uint64_t seed, const std::string& reference_library, const std::string& library);

struct DifferentProgram {
  std::uint64_t seed;
  Program program;
  std::string expected; ///< the answers
  std::vector<Difference> differences;
};

/// Runs a program again in a process of its own, because the programs before may have left something
/// behind. Nothing if its answers are then the expected ones. With a reference, the program is made short.
std::optional<DifferentProgram> confirmed_difference(std::uint64_t seed, const std::string& expected,
                                                     const std::string& library,
                                                     const std::string& reference_library);

} // namespace conformance
