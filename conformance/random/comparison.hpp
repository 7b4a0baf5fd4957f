// SPDX-License-Identifier: MIT
// Two drivers' answers to one program, call by call.
#pragma once

#include "program.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conformance {

struct Difference {
  std::size_t call = 0; ///< its place in the program, from 0
  std::string expected; ///< in the short form
  std::string here;
};

/// The calls that were answered differently. If one program ended early, the rest counts as one difference.
std::vector<Difference> differences(std::string_view expected, std::string_view here);

/// The program up to its first difference, with the answers; calls that were left out are not shown.
/// `expected` names the other driver.
std::string explanation(const Program&, std::string_view expected_answers, const std::vector<Difference>&,
                        std::string_view expected);

} // namespace conformance
