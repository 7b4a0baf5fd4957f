// SPDX-License-Identifier: MIT
// Finds the shortest part of a program that two drivers answer differently. A part has other answers
// than the whole program, so both drivers have to be at hand: recorded answers do not help.
#pragma once

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

} // namespace conformance
