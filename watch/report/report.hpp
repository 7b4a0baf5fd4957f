// SPDX-License-Identifier: MIT
// What `cuevent watch` says: findings as they happen, each once with a count; a summary; JSON.
#pragma once

#include "report/filter.hpp"
#include "report/printable.hpp"
#include "report/terminal.hpp"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace watch {

/// Whether findings about libraries of CUDA alone are reported, or only counted.
enum class OfVendor { counted, reported };

class WatchReport {
public:
  /// How findings are printed to standard error: `terminal` is null if it is none.
  enum class Print { nothing, text };
  WatchReport(const Suppressions& suppressions, CallText& texts, OfVendor of_vendor,
              Print print = Print::text, const Terminal* terminal = nullptr)
      : filter_(suppressions, texts), texts_(texts), of_vendor_(of_vendor), print_(print),
        terminal_(terminal) {}

  /// Prints the finding, unless there was one of this rule with this stack before, or if many were printed.
  void add(const CallFile& process, const Finding& finding);

  std::size_t findings() const { return entries_.size(); }
  /// That are counted, and not reported. Of one stack and rule, one.
  std::size_t vendor_findings() const { return vendors_.size(); }

  /// A table to standard error. Nothing if there are no findings.
  void print_summary() const;

  nlohmann::ordered_json json() const;
  /// What is not printed, but may be tried: the likeliest first.
  nlohmann::ordered_json candidates_json() const;

private:
  /// The places of the two calls of a possible finding, in the order of their submissions.
  struct Pair {
    HoldPlace first, second;
  };
  struct Entry {
    std::string rule, where;
    unsigned long count;
    nlohmann::ordered_json json;
    std::vector<Pair> pairs; // the first one and the last one
    std::uint64_t rank;      // of a candidate
  };

  static void add_to(Entry& entry, const Finding& finding);
  static nlohmann::ordered_json json_of_entries(const std::vector<Entry>& sorted);
  void add_candidate(const CallFile& process, const Finding& finding);

  std::string key_of(const CallFile& process, const Finding& finding);
  std::string where_of(const CallFile& process, const Call& call);

  const Filter filter_;
  CallText& texts_;
  const OfVendor of_vendor_;
  const Print print_;
  const Terminal* const terminal_;
  std::set<std::string> vendors_; // keys of what is counted
  std::vector<Entry> entries_, candidates_;
  std::map<std::tuple<const CallFile*, unsigned, unsigned>, std::size_t> candidates_by_stacks_;
  std::set<std::pair<Rule, std::string>> told_; // what was printed: the fix of a rule
  std::map<std::string, std::size_t> by_stack_; // into entries_
  std::map<std::tuple<const CallFile*, Rule, unsigned, unsigned, unsigned>, long> known_; // -1: dropped
};

} // namespace watch
