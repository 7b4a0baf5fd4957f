// SPDX-License-Identifier: MIT
// A mistake of a program: what the rules make of its calls.
#pragma once

#include "rules/call.hpp"
#include "rules/rule_pages.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace watch {

/// An earlier call that matters: "the event was created here".
struct Earlier {
  std::string what;
  Call call;
};

/// Adds the call, if it is known.
inline void add(std::vector<Earlier>& earlier, const char* what, const std::optional<Call>& call) {
  if (call) earlier.push_back({what, *call});
}

struct Finding {
  Rule rule;
  std::string sentence;
  Call call;
  std::vector<Earlier> earlier;
  unsigned long count = 1;  // how often it happened
  bool is_possible = false; // else it is certain
};

using Report = std::function<void(Finding)>;

} // namespace watch
