// SPDX-License-Identifier: MIT
#include "watch/order_proof.hpp"

#include <algorithm>

namespace cli {

namespace {

using json = nlohmann::ordered_json;
using watch::Hold;
using watch::HoldPlace;

constexpr int most_tries = 5; // of one run that counts
constexpr const char* no_time = "there was no time to try";

bool is_same_call(const json& one, const json& other) {
  for (const char* const field : {"function", "stack", "python"})
    if (one.value(field, json()) != other.value(field, json())) return false;
  return true;
}

/// Runs with one hold, and with a longer one of the second submission too.
class Trial {
public:
  Trial(JitterRuns& runs, const json& finding, const SubmissionPair& pair, std::uint32_t microseconds,
        Deadline deadline)
      : hold_{pair.first.stream, pair.first.submission, microseconds}, runs_(runs), finding_(finding),
        pair_(pair), deadline_(deadline) {}

  /// Whether the result changes each time with the hold alone, and never if the second submission is late as
  /// well. Whatever follows the first submission on its stream is late too, and may be what changes the
  /// result.
  bool proves() {
    const Hold later{pair_.second.stream, pair_.second.submission, watch::longest_hold_us};
    for (int round = 0; round < JitterRuns::repetitions; ++round) {
      if (!run_with({hold_}, {pair_.second})) return false;
      if (runs_.is_usual(run_)) return fails("the result stays the same if " + place() + " is held");
      shown_ = run_;
      if (!run_with({hold_, later}, overtaking(run_))) return false;
      if (!runs_.is_usual(run_))
        return fails("the result changes if " + place() + " is held, but the other call does not cause it");
    }
    runs_.run_without();
    return true;
  }

  const std::string& why_not() const { return why_not_; }
  const Hold& hold() const { return hold_; }
  const Run& shown() const { return shown_; } // with the hold alone

private:
  std::string place() const {
    return "submission " + std::to_string(pair_.first.submission) + " of stream " +
           std::to_string(pair_.first.stream);
  }
  bool fails(const std::string& why) {
    why_not_ = why;
    return false;
  }

  std::vector<HoldPlace> overtaking(const Run& run) const {
    std::vector<HoldPlace> places;
    const json held = run.holds();
    for (const json& other : held)
      if (other["stream"] != pair_.first.stream && came_during(*find_hold(held, pair_.first), other))
        places.push_back({other["stream"], other["submission"]});
    return places;
  }

  /// A run counts if these come while the first one is held: a busy machine can delay the host for longer
  /// than a hold.
  bool run_with(const Holds& holds, const std::vector<HoldPlace>& expected) {
    for (int tries = 0; tries < most_tries; ++tries) {
      if (std::chrono::steady_clock::now() >= deadline_) return fails(no_time);
      run_ = runs_.run(plan_of(holds));
      const json held = run_.holds();
      if (!has_pair(held, finding_, pair_)) continue;
      const json* const first = find_hold(held, pair_.first);
      if (std::ranges::all_of(expected, [&](const HoldPlace& place) {
            const json* const other = find_hold(held, place);
            return other != nullptr && came_during(*first, *other);
          }))
        return true;
    }
    return fails("in " + std::to_string(most_tries) + " runs, the other call did not come while " + place() +
                 " was held");
  }

  const Hold hold_;
  JitterRuns& runs_;
  const json& finding_;
  const SubmissionPair pair_;
  const Deadline deadline_;
  Run run_, shown_;
  std::string why_not_;
};

void say_of(const json& finding, const std::string& what) {
  say(finding["rule"].get<std::string>() + ' ' + what + "\n  " + finding["sentence"].get<std::string>());
}

void report(JitterRuns& runs, const json& finding, const Trial& trial, const SubmissionPair& pair) {
  say_of(finding, "is certain, for one hold alone changes the result in 3 of 3 runs");
  const json holds = trial.shown().holds();
  print_hold(holds, pair.first, "held for " + milliseconds(trial.hold().microseconds));
  print_hold(holds, pair.second, "overtaken by, for the result is the usual one if this is held for longer");
  runs.show("with this hold", trial.shown().outcome);
  runs.say_how_to_repeat(plan_of({trial.hold()}));
}

} // namespace

SubmissionPair pair_of(const json& places) {
  const auto place_of = [](const json& place) { return HoldPlace{place["stream"], place["submission"]}; };
  return {place_of(places["first"]), place_of(places["second"])};
}

/// In a program with several threads, the places may belong to other calls now.
bool has_pair(const json& holds, const json& finding, const SubmissionPair& pair) {
  const json* const first = find_hold(holds, pair.first);
  const json* const second = find_hold(holds, pair.second);
  return first != nullptr && second != nullptr && (*first)["microseconds"] != 0 &&
         is_same_call((*first)["call"], finding["earlier"][0]) &&
         is_same_call((*second)["call"], finding["call"]);
}

std::string prove_pair(JitterRuns& runs, json& finding, const SubmissionPair& pair, Deadline deadline) {
  std::string why_not;
  for (const std::uint32_t microseconds : {watch::longest_hold_us / 2, watch::longest_hold_us}) {
    Trial trial(runs, finding, pair, microseconds, deadline);
    if (!trial.proves()) {
      why_not = trial.why_not();
      continue;
    }
    report(runs, finding, trial, pair);
    finding["class"] = "certain";
    finding["proof"] = {{"jitter", plan_of({trial.hold()})},
                        {"changed", JitterRuns::repetitions},
                        {"runs", JitterRuns::repetitions}};
    return {};
  }
  return why_not;
}

std::size_t prove_findings(JitterRuns& runs, json& findings, Deadline deadline) {
  std::size_t possible = 0, proven = 0;
  for (json& finding : findings) {
    if (finding["class"] != "possible") continue;
    ++possible;
    std::string why_not = "its calls cannot be held";
    for (const json& places : finding.value("places", json::array())) {
      why_not = prove_pair(runs, finding, pair_of(places), deadline);
      if (why_not.empty()) break;
    }
    if (why_not.empty())
      ++proven;
    else
      say_of(finding, "stays possible: " + why_not);
  }
  if (possible == 0) return 0;
  say(std::to_string(proven) + " of " + std::to_string(possible) +
      (possible == 1 ? " possible finding is certain" : " possible findings are certain"));
  return proven;
}

} // namespace cli
