// SPDX-License-Identifier: MIT
// The arguments of a program that a subcommand starts.
#pragma once

#include <string>
#include <vector>

namespace cli {

/// For the exec functions, which do not change the words. They have to outlive what is returned.
inline std::vector<char*> arguments_of(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

} // namespace cli
