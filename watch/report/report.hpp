// SPDX-License-Identifier: MIT
// What `cuevent watch` says: findings as they happen, each once with a count; a summary; JSON.
#pragma once

#include "report/call_text.hpp"
#include "rules/finding.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace watch {

/// Lines "RULE PATTERN": findings of this rule are dropped if a function, a source file or a library of the
/// stack matches the pattern of the shell. RULE may be *, and without PATTERN every finding of the rule is
/// dropped.
class Suppressions {
public:
  /// Throws std::runtime_error with the number of the line that is wrong.
  void read(const std::string& path);

  bool drop(const watch::Finding& finding, const std::vector<SourceFrame>& stack) const;

private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

/// The text without what a terminal takes for commands. Line breaks stay.
std::string printable(const std::string& text);

/// Prints `printable(text)` to standard error.
void print_text(const std::string& text);

class WatchReport {
public:
  WatchReport(const Suppressions& suppressions, CallText& texts)
      : suppressions_(suppressions), texts_(texts) {}

  /// Prints the finding to standard error, unless there was one of this rule with this stack before, or if
  /// many were printed.
  void add(const CallFile& process, const watch::Finding& finding);

  std::size_t findings() const { return entries_.size(); }

  /// A table to standard error. Nothing if there are no findings.
  void print_summary() const;

  nlohmann::ordered_json json() const;

private:
  struct Entry {
    std::string rule, where;
    unsigned long count;
    nlohmann::ordered_json json;
  };

  /// Whether the program can change what the finding reports. Always true for mistakes.
  bool is_of_the_program(const CallFile& process, const watch::Finding& finding);

  const Suppressions& suppressions_;
  CallText& texts_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> by_stack_; // into entries_
  std::map<std::tuple<const CallFile*, watch::Rule, unsigned, unsigned, unsigned>, long>
      known_; // -1: dropped
};

} // namespace watch
