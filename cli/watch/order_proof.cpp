// SPDX-License-Identifier: MIT
#include "watch/order_proof.hpp"

#include <optional>

namespace cli {

namespace {

using json = nlohmann::ordered_json;
using watch::HoldPlace;

constexpr unsigned most_runs = 100; // of all proofs together

/// The two submissions of a possible finding, in their order.
struct Pair {
  HoldPlace first, second;
};

HoldPlace place_of(const json& place) { return {place["stream"], place["submission"]}; }

bool is_same_call(const json& one, const json& other) {
  for (const char* const field : {"function", "stack", "python"})
    if (one.value(field, json()) != other.value(field, json())) return false;
  return true;
}

struct Trial {
  int changed = 0, runs = 0; // of them
  bool is_held = true;       // the submission of the finding, in each run
  bool is_healed = false;    // the result is the usual one if the second submission is held for longer
  Holds holds;
  Run last;
  bool is_proof() const { return changed == JitterRuns::repetitions && is_healed; }
};

Trial try_pair(JitterRuns& runs, const json& finding, const Pair& pair) {
  Trial trial;
  trial.holds = {{pair.first.stream, pair.first.submission, watch::longest_hold_us}};
  while (trial.runs < JitterRuns::repetitions && trial.changed == trial.runs) {
    trial.last = runs.run(plan_of(trial.holds));
    ++trial.runs;
    // In a program with several threads, the place may belong to another call now.
    const json holds = trial.last.holds();
    const json* const held = find_hold(holds, pair.first);
    trial.is_held = held != nullptr && (*held)["microseconds"] != 0 &&
                    is_same_call((*held)["call"], finding["earlier"][0]);
    if (trial.is_held && !runs.is_usual(trial.last)) ++trial.changed;
  }
  // Whatever follows the first submission on its stream is late as well, and may be what changes the result.
  if (trial.changed == JitterRuns::repetitions)
    trial.is_healed = runs.heals(runs.shorter(trial.holds), pair.second);
  return trial;
}

std::string why_not(const Trial& trial, const Pair& pair) {
  const std::string place = "submission " + std::to_string(pair.first.submission) + " of stream " +
                            std::to_string(pair.first.stream);
  if (!trial.is_held) return place + " was another call in another run, or was not held";
  if (trial.changed == 0) return "the result stays the same if " + place + " is held";
  if (trial.changed < JitterRuns::repetitions)
    return "the result changes in " + std::to_string(trial.changed) + " of " + std::to_string(trial.runs) +
           " runs if " + place + " is held";
  return "the result changes if " + place + " is held, but the other call is not what overtakes it";
}

void say_of(const json& finding, const std::string& what) {
  say(finding["rule"].get<std::string>() + ' ' + what + "\n  " + finding["sentence"].get<std::string>());
}

void report(JitterRuns& runs, const json& finding, const Trial& trial, const Pair& pair) {
  say_of(finding, "is certain, for one hold alone changes the result in 3 of 3 runs");
  const json holds = trial.last.holds();
  print_hold(holds, pair.first, "held for " + milliseconds(watch::longest_hold_us));
  print_hold(holds, pair.second, "overtaken by, for the result is the usual one if this is held for longer");
  runs.show("with this hold", trial.last.outcome);
  runs.say_how_to_repeat(trial.holds);
}

} // namespace

std::size_t prove_findings(JitterRuns& runs, json& findings) {
  const unsigned last_run = runs.count() + most_runs;
  std::size_t possible = 0, proven = 0;
  for (json& finding : findings) {
    if (finding["class"] != "possible") continue;
    ++possible;
    std::string reason = runs.count() >= last_run ? "too many others were tried" : "its calls cannot be held";
    for (const json& places : finding.value("places", json::array())) {
      if (runs.count() >= last_run) break;
      const Pair pair{place_of(places["first"]), place_of(places["second"])};
      const Trial trial = try_pair(runs, finding, pair);
      if (!trial.is_proof()) {
        reason = why_not(trial, pair);
        continue;
      }
      report(runs, finding, trial, pair);
      finding["class"] = "certain";
      finding["proof"] = {{"jitter", plan_of(trial.holds)}, {"changed", trial.changed}, {"runs", trial.runs}};
      ++proven;
      break;
    }
    if (finding["class"] == "possible") say_of(finding, "stays possible: " + reason);
  }
  say(std::to_string(proven) + " of " + std::to_string(possible) +
      (possible == 1 ? " possible finding is certain" : " possible findings are certain"));
  return proven;
}

} // namespace cli
