// SPDX-License-Identifier: MIT
// What a report says about the rule of a finding: the page of the rule, or what fits this finding better.
#pragma once

#include "rules/finding.hpp"

namespace watch {

struct Explanation {
  const char* driver; // what the driver does
  const char* fix;
};

/// Whose words the fix uses.
enum class Words { driver, torch };

Explanation explanation_of(const Finding& finding, Words words);

} // namespace watch
