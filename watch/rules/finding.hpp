// SPDX-License-Identifier: MIT
// A mistake of a program: what the rules make of its calls.
#pragma once

#include "rules/call.hpp"
#include "rules/rule_pages.hpp"

#include <cstdint>
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

enum class Certainty : std::uint8_t {
  certain,
  possible,
  candidate, // too weak to be reported: `--check` tries it
};

struct Finding {
  Rule rule = {};
  std::string sentence;
  Call call;
  std::vector<Earlier> earlier;
  unsigned long count = 1; // how often it happened
  Certainty certainty = Certainty::certain;
  std::uint64_t rank = 0; // of a candidate: the smallest is tried first
};

using Report = std::function<void(Finding)>;

} // namespace watch
