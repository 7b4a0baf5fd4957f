// SPDX-License-Identifier: MIT
// `cuevent watch --explain`: what a rule is about.
#pragma once

#include <string>

namespace cli {

/// Prints the page of this rule, or with `all` a list of the rules. Returns the exit code. Throws
/// std::runtime_error if there is no such rule.
int explain_rule(const std::string& name);

} // namespace cli
