// SPDX-License-Identifier: MIT
#include "watch/candidate_trials.hpp"

#include <algorithm>
#include <deque>
#include <set>

namespace cli {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_together = 16; // of one run: a stream has room for 32 holds
constexpr int most_tries_of_pair = 3;     // if the second kernel is late

struct Candidate {
  json* finding;
  std::vector<SubmissionPair> pairs; // that are left
  enum class Result { untried, missed, unchanged, unproven, certain } result = Result::untried;
};

struct PairToTry {
  Candidate* candidate;
  SubmissionPair pair;
  int tries = 0;
};
using Group = std::vector<PairToTry>;

class Trials {
public:
  Trials(JitterRuns& runs, json& findings, Deadline deadline)
      : runs_(runs), findings_(findings), deadline_(deadline) {}

  void run(std::vector<Candidate>& candidates) {
    for (std::size_t i = 0; i < 2; ++i) // the likeliest pair of each, and then the last one
      for (Candidate& candidate : candidates)
        if (candidate.pairs.size() > i) queue_.push_back({&candidate, candidate.pairs[i]});
    while (!queue_.empty() && !is_over())
      try_together(next_group());
  }

private:
  bool is_over() const { return std::chrono::steady_clock::now() >= deadline_; }

  /// No stream of the group is held, and has to overtake as well: then nothing would be overtaken.
  Group next_group() {
    Group group;
    std::set<std::uint32_t> held, overtaking;
    std::deque<PairToTry> others;
    for (PairToTry& each : queue_) {
      const std::uint32_t first = each.pair.first.stream, second = each.pair.second.stream;
      if (each.candidate->result == Candidate::Result::certain) continue;
      if (group.size() >= most_together || overtaking.contains(first) || held.contains(second)) {
        others.push_back(each);
        continue;
      }
      held.insert(first);
      overtaking.insert(second);
      group.push_back(each);
    }
    queue_ = std::move(others);
    return group;
  }

  /// If the result stays the same, no pair of the group changes it. Else each half is tried.
  void try_together(const Group& group) {
    if (group.empty() || is_over()) return;
    std::set<watch::Hold> holds;
    for (const PairToTry& each : group)
      holds.insert({each.pair.first.stream, each.pair.first.submission, watch::longest_hold_us});
    const Holds all(holds.begin(), holds.end());
    Run run = runs_.run(plan_of(all));
    if (runs_.is_usual(run)) run = runs_.run(plan_of(all)); // a busy machine can delay the host
    if (runs_.is_usual(run)) return note_unchanged(group, run.holds());
    if (group.size() == 1) return prove(group.front());
    const auto middle = group.begin() + static_cast<std::ptrdiff_t>(group.size() / 2);
    try_together({group.begin(), middle});
    try_together({middle, group.end()});
  }

  void note_unchanged(const Group& group, const json& held) {
    for (PairToTry each : group) {
      const bool has_overtaken =
          has_pair(held, *each.candidate->finding, each.pair) &&
          came_during(*find_hold(held, each.pair.first), *find_hold(held, each.pair.second));
      note(*each.candidate, has_overtaken ? Candidate::Result::unchanged : Candidate::Result::missed);
      if (!has_overtaken && ++each.tries < most_tries_of_pair) queue_.push_back(each);
    }
  }

  void prove(const PairToTry& each) {
    Candidate& candidate = *each.candidate;
    const bool is_certain = prove_pair(runs_, *candidate.finding, each.pair, deadline_).empty();
    note(candidate, is_certain ? Candidate::Result::certain : Candidate::Result::unproven);
    if (is_certain) findings_.push_back(*candidate.finding);
  }

  static void note(Candidate& candidate, Candidate::Result result) {
    candidate.result = std::max(candidate.result, result);
  }

  JitterRuns& runs_;
  json& findings_;
  const Deadline deadline_;
  std::deque<PairToTry> queue_;
};

std::string text_of(const CandidateCounts& counts, std::size_t all) {
  std::string text = std::to_string(all) + (all == 1 ? " pair of kernels gets" : " pairs of kernels get") +
                     " the same memory on two streams, and nothing orders the two: ";
  const std::size_t begin = text.size();
  const auto add = [&](std::size_t count, const char* what) {
    if (count > 0) text += (text.size() > begin ? "; " : "") + std::to_string(count) + ' ' + what;
  };
  add(counts.certain, "certain");
  add(counts.unchanged, "without a change of the result");
  add(counts.unproven, "that did not change the result alone, each time");
  add(counts.missed, "not tried, for the second kernel did not come while the first one was held");
  add(counts.untried, "not tried, for the time was over: see --limit");
  return text;
}

} // namespace

CandidateCounts try_candidates(JitterRuns& runs, json candidates, json& findings, Deadline deadline) {
  CandidateCounts counts;
  if (candidates.empty()) return counts;
  std::vector<Candidate> all;
  for (json& finding : candidates) {
    all.push_back({&finding, {}});
    for (const json& places : finding.value("places", json::array()))
      all.back().pairs.push_back(pair_of(places));
    if (all.back().pairs.empty()) all.back().result = Candidate::Result::missed; // it cannot be held
  }
  Trials(runs, findings, deadline).run(all);
  for (const Candidate& each : all)
    switch (each.result) {
    case Candidate::Result::certain:
      ++counts.certain;
      break;
    case Candidate::Result::unchanged:
      ++counts.unchanged;
      break;
    case Candidate::Result::unproven:
      ++counts.unproven;
      break;
    case Candidate::Result::missed:
      ++counts.missed;
      break;
    default:
      ++counts.untried;
    }
  say(text_of(counts, all.size()));
  return counts;
}

} // namespace cli
