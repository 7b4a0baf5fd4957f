// SPDX-License-Identifier: MIT
// The name that was probably meant by a misspelt one.
#pragma once

#include <string>
#include <vector>

namespace watch {

/// The candidate that somebody probably meant by the word. Empty if none is near.
std::string meant_by(const std::string& word, const std::vector<std::string>& candidates);

/// " (did you mean --devices?)", or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

} // namespace watch
