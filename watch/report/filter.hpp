// SPDX-License-Identifier: MIT
// Which findings are reported.
#pragma once

#include "report/call_text.hpp"
#include "rules/finding.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace watch {

/// Lines "RULE PATTERN": findings of this rule are dropped if a function, a source file, a line
/// "train.cpp:12", a library or a Python frame of the stack matches the pattern of the shell. A function may
/// have its arguments or not: an inlined function has none. RULE may be *, and without PATTERN every finding
/// of the rule is dropped.
class Suppressions {
public:
  /// Throws std::runtime_error with the number of the line that is wrong.
  void read(const std::string& path);

  bool drop(const Finding& finding, const std::vector<SourceFrame>& stack,
            const std::vector<std::string>& python) const;

private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

enum class Kept {
  no,
  yes,
  as_vendors, // it is about a library of CUDA alone
};

/// The line that drops findings of this rule at this place. `own`: the innermost frame of the program. If
/// there is none, the library in the stack counts.
std::string suppression_of(Rule rule, const std::optional<NamedFrame>& own,
                           const std::vector<SourceFrame>& stack);

class Filter {
public:
  Filter(const Suppressions& suppressions, CallText& texts) : suppressions_(suppressions), texts_(texts) {}

  /// Whether somebody can change what the finding reports, and nobody has suppressed it.
  Kept judge(const CallFile& process, const Finding& finding) const;

private:
  bool is_of_vendor(const CallFile& process, const Finding& finding,
                    const std::vector<SourceFrame>& stack) const; // of its call

  /// Always true for mistakes.
  bool is_of_the_program(const CallFile& process, const Finding& finding) const;

  const Suppressions& suppressions_;
  CallText& texts_;
};

} // namespace watch
