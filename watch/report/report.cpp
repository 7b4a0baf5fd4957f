// SPDX-License-Identifier: MIT
#include "report/report.hpp"

#include "report/finding_text.hpp"

#include <algorithm>
#include <cstdio>

namespace watch {

namespace {

constexpr std::size_t printed_limit = 50; // findings with their texts, and lines of the table

nlohmann::ordered_json place_json(const HoldPlace& place) {
  return {{"stream", place.stream}, {"submission", place.submission}};
}

} // namespace

/// Another process, or another part of the process, may make the same finding.
std::string WatchReport::key_of(const CallFile& process, const Finding& finding) {
  std::string key = std::string(page_of(finding.rule).name) + ' ' + finding.call.name();
  for (const std::string& frame : process.python_stack(finding.call.stack))
    key += '\n' + frame;
  for (const SourceFrame& frame : texts_.stack_of(process, finding.call))
    key += '\n' + frame.place();
  return key;
}

void WatchReport::add(const CallFile& process, const Finding& finding) {
  if (finding.certainty == Certainty::candidate) return add_candidate(process, finding);
  // A call without a stack stands for all calls of its function.
  // Of a leak, the release of the context matters too.
  const unsigned released =
      finding.rule == Rule::leaked && !finding.earlier.empty() ? finding.earlier.front().call.stack : 0;
  const auto quick_key =
      std::tuple(&process, finding.rule, finding.call.stack, unsigned{finding.call.entry}, released);
  if (const auto known = known_.find(quick_key); known != known_.end()) {
    if (known->second >= 0) add_to(entries_[static_cast<std::size_t>(known->second)], finding);
    return;
  }
  known_[quick_key] = -1;
  const Kept kept = filter_.judge(process, finding);
  if (kept == Kept::no) return;
  const std::string key = key_of(process, finding);
  if (kept == Kept::as_vendors && of_vendor_ == OfVendor::counted) {
    vendors_.insert(key);
    return;
  }
  const RulePage& page = page_of(finding.rule);
  const auto [place, is_new] = by_stack_.try_emplace(key, entries_.size());
  known_[quick_key] = static_cast<long>(place->second);
  if (!is_new) return add_to(entries_[place->second], finding);
  if (print_ == Print::text && entries_.size() < printed_limit) {
    const bool is_told = !told_.emplace(finding.rule, explanation_of(process, finding).fix).second;
    print_text(text_of(texts_, process, finding, is_told ? Advice::without : Advice::with, terminal_));
  }
  if (print_ == Print::text && entries_.size() == printed_limit)
    print_text("cuevent watch: " + std::to_string(printed_limit) +
               " findings were printed. More are only counted, and listed by --json\n");

  entries_.push_back(
      {page.name, where_of(process, finding.call), 0, json_of(texts_, process, finding), {}, finding.rank});
  add_to(entries_.back(), finding);
}

void WatchReport::add_candidate(const CallFile& process, const Finding& finding) {
  if (filter_.judge(process, finding) != Kept::yes) return;
  const unsigned other = finding.earlier.empty() ? 0 : finding.earlier.front().call.stack;
  const auto [place, is_new] =
      candidates_by_stacks_.try_emplace(std::tuple(&process, other, finding.call.stack), candidates_.size());
  if (is_new)
    candidates_.push_back(
        {page_of(finding.rule).name, {}, 0, json_of(texts_, process, finding), {}, finding.rank});
  add_to(candidates_[place->second], finding);
}

std::string WatchReport::where_of(const CallFile& process, const Call& call) {
  auto own = texts_.own_frame_of(process, call);
  if (terminal_ == nullptr || !own) return texts_.place_of(process, call);
  std::vector<NamedFrame> frames{std::move(*own)};
  terminal_->show_paths(frames);
  return frames.front().text;
}

void WatchReport::add_to(Entry& entry, const Finding& finding) {
  entry.count += finding.count;
  if (finding.certainty == Certainty::certain || finding.earlier.empty()) return;
  const Pair pair{finding.earlier.front().call.place, finding.call.place};
  if (!pair.first.is_known() || !pair.second.is_known()) return;
  if (entry.pairs.size() == 2) entry.pairs.pop_back();
  entry.pairs.push_back(pair);
}

void WatchReport::print_summary() const {
  if (entries_.empty() || print_ == Print::nothing) return;
  std::fprintf(stderr, "cuevent watch:\n     count  %-26s where\n", "rule");
  std::map<std::string, std::pair<std::size_t, unsigned long>> more; // places and calls of a rule
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (i < printed_limit) {
      char line[64];
      std::snprintf(line, sizeof line, "%10lu  %-26s ", entry.count, entry.rule.c_str());
      print_text(line + entry.where + '\n');
    } else {
      auto& [places, calls] = more[entry.rule];
      ++places;
      calls += entry.count;
    }
  }
  for (const auto& [rule, counts] : more)
    std::fprintf(stderr, "%10lu  %-26s at %zu more places\n", counts.second, rule.c_str(), counts.first);
}

nlohmann::ordered_json WatchReport::json() const { return json_of_entries(entries_); }

nlohmann::ordered_json WatchReport::candidates_json() const {
  std::vector<Entry> sorted = candidates_;
  std::ranges::stable_sort(sorted, {}, &Entry::rank);
  return json_of_entries(sorted);
}

nlohmann::ordered_json WatchReport::json_of_entries(const std::vector<Entry>& sorted) {
  auto findings = nlohmann::ordered_json::array();
  for (const Entry& entry : sorted) {
    findings.push_back(entry.json);
    findings.back()["count"] = entry.count;
    for (const Pair& pair : entry.pairs) // with --jitter only
      findings.back()["places"].push_back(
          {{"first", place_json(pair.first)}, {"second", place_json(pair.second)}});
  }
  return findings;
}

} // namespace watch
