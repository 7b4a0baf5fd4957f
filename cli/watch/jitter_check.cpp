// SPDX-License-Identifier: MIT
#include "exit_code.hpp"
#include "signals.hpp"
#include "watch/candidate_trials.hpp"
#include "watch/jitter.hpp"
#include "watch/jitter_runs.hpp"
#include "watch/json_file.hpp"
#include "watch/order_proof.hpp"
#include "watch/program.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace cli {

namespace {

using json = nlohmann::ordered_json;
using watch::Hold;
using Answer = JitterRuns::Answer;

constexpr int repetitions = JitterRuns::repetitions;
constexpr unsigned most_runs = 100; // of one search

class Search {
public:
  explicit Search(const WatchOptions& options) : options_(options), runs_(options) {}

  int run() {
    watchable_program(options_.program.front()); // throws if it cannot be
    JsonFile json_file(options_.json_file);
    const std::optional<Outcome> other = runs_.differing_run();
    if (!other) say("3 runs without jitter have the same result");
    json found = runs_.found();
    if (!found.is_object()) throw std::runtime_error("the findings of the first run could not be written");
    std::size_t proven = 0;
    CandidateCounts tried;
    if (!other && !options_.order.empty()) {
      const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(options_.limit);
      proven = prove_findings(runs_, found["findings"], deadline);
      tried = try_candidates(runs_, found["candidates"], found["findings"], deadline);
      proven += tried.certain;
    }
    const std::string changed_by = other ? compare_waiting(*other) : proven > 0 ? "" : try_seeds();
    const bool has_changed = proven > 0 || !changed_by.empty();
    if (json_file.is_wanted()) {
      found.erase("jitter"); // of a run without holds
      found["candidates"] = {{"certain", tried.certain},
                             {"unchanged", tried.unchanged},
                             {"unproven", tried.unproven},
                             {"missed", tried.missed},
                             {"untried", tried.untried}};
      found["changed_by"] = changed_by.empty() ? json() : json(changed_by);
      if (!json_file.write(found) && !has_changed) return not_written;
    }
    return has_changed ? failure : success;
  }

private:
  /// Returns the plan that changes the result, or an empty one.
  std::string try_seeds() {
    const auto [first, last] = seeds();
    for (std::uint64_t seed = first; seed <= last; ++seed)
      if (const auto holds = holds_that_change(seed)) return report(*holds);
    say("no seed changes the result");
    return wait_everywhere();
  }

  /// A program that is wrong in every run has no rare order. But it may be right if the host waits after each
  /// submission. Returns the plan if so.
  std::string wait_everywhere() {
    std::optional<Run> other;
    for (int i = 0; i < repetitions; ++i) {
      Run run = runs_.run(watch::waiting_plan);
      if (runs_.is_usual(run)) {
        if (i == 0)
          say("if the host waits after each submission, the result is the same");
        else
          say("if the host waits after each submission, the result differs now and then, which does not "
              "count");
        return {};
      }
      other = std::move(run);
    }
    runs_.run_without(); // it may have become busier here
    say("if the host waits after each submission, the result is another one in 3 of 3 runs. So a wait is "
        "missing");
    runs_.show("with these waits", other->outcome);
    runs_.say_how_to_repeat(watch::waiting_plan);
    return watch::waiting_plan;
  }

  /// The results differ without jitter, so no hold can tell anything. If they agree as soon as the host waits
  /// after each submission, it is the order that differs. Returns the plan.
  std::string compare_waiting(const Outcome& other) {
    runs_.show("another one", other, "one of them");
    std::optional<Run> waiting;
    for (int i = 0; i < repetitions; ++i) {
      Run run = runs_.run(watch::waiting_plan);
      if (waiting && !(waiting->outcome == run.outcome))
        throw std::runtime_error(
            "the runs without jitter differ, also if the host waits after each submission, "
            "so a change would say nothing. Let the check print only what is the same in "
            "every run");
      waiting = std::move(run);
    }
    say("the runs without jitter differ. If the host waits after each submission, 3 of 3 runs have the same "
        "result. So a wait is missing");
    runs_.show("with these waits", waiting->outcome, "one without");
    runs_.say_how_to_repeat(watch::waiting_plan);
    return watch::waiting_plan;
  }

  std::pair<std::uint64_t, std::uint64_t> seeds() const {
    const auto dots = options_.jitter.find("..");
    const std::uint64_t first = std::stoull(options_.jitter);
    return {first, dots == std::string::npos ? first : std::stoull(options_.jitter.substr(dots + 2))};
  }

  /// The holds of this seed, if they change the result each time.
  std::optional<Holds> holds_that_change(std::uint64_t seed) {
    Holds holds;
    int changed = 0, runs = 0;
    for (; runs < repetitions && changed == runs; ++runs) {
      const Run run = runs_.run(std::to_string(seed));
      const json held = run.holds();
      if (!held.empty() && !runs_.is_usual(run)) ++changed;
      if (runs > 0) continue;
      std::set<Hold> all; // several processes may have the same
      for (const json& hold : held)
        all.insert({hold["stream"], hold["submission"], hold["microseconds"]});
      holds.assign(all.begin(), all.end());
    }
    unsigned long total = 0;
    for (const Hold& hold : holds)
      total += hold.microseconds;
    const std::string what = "seed " + std::to_string(seed) + ", " + std::to_string(holds.size()) +
                             (holds.size() == 1 ? " hold, " : " holds, ") + milliseconds(total) + ": ";
    if (changed == 0)
      say(what + "the same result");
    else if (changed < repetitions)
      say(what + "another result in " + std::to_string(changed) + " of " + std::to_string(runs) +
          " runs, which does not count");
    else
      say(what + "another result in 3 of 3 runs");
    if (changed < repetitions) return std::nullopt;
    runs_.run_without(); // it may have become busier here
    return holds;
  }

  /// Leaves out parts as long as the result is another one (delta debugging).
  Holds fewest(Holds holds) {
    const unsigned last_run = runs_.count() + most_runs;
    for (std::size_t parts = 2; holds.size() > 1 && runs_.count() < last_run;) {
      const std::size_t length = (holds.size() + parts - 1) / parts;
      bool smaller = false;
      for (const bool keep : {true, false}) // one part alone, or all but one
        for (std::size_t begin = 0; begin < holds.size() && !smaller && runs_.count() < last_run;
             begin += length) {
          const auto from = holds.begin() + static_cast<std::ptrdiff_t>(begin);
          const auto to = holds.begin() + static_cast<std::ptrdiff_t>(std::min(begin + length, holds.size()));
          Holds tried(from, to);
          if (!keep) {
            tried.assign(holds.begin(), from);
            tried.insert(tried.end(), to, holds.end());
          }
          if (tried.size() == holds.size() || tried.empty() || !runs_.changes(tried)) continue;
          holds = tried;
          parts = keep ? 2 : std::max<std::size_t>(parts - 1, 2);
          smaller = true;
        }
      if (smaller) continue;
      if (parts >= holds.size()) break;
      parts = std::min(holds.size(), 2 * parts);
    }
    return holds;
  }

  /// The submission that overtook a held one: if it is held for longer, the result is the usual one again. So
  /// it is if an earlier one of its stream is held, and not with a later one.
  struct Overtaking {
    std::optional<watch::HoldPlace> place;
    std::size_t others = 0; // later ones of its stream that it may be instead
    bool tried_all = false; // without a place: no submission to another stream explains the change
  };
  /// `runs` show the change.
  Overtaking overtaking(const Holds& holds, const std::vector<Run>& runs) {
    std::map<std::uint32_t, std::set<std::uint32_t>> candidates;
    for (const Run& run : runs)
      for (const json& other : run.holds())
        if (other["microseconds"] == 0)
          candidates[other["stream"]].insert(other["submission"].get<std::uint32_t>());
    std::set<std::uint32_t> held;
    for (const Hold& hold : holds) {
      candidates.erase(hold.stream);
      held.insert(hold.stream);
    }
    // What overtook a hold of one stream may have been held itself, on another one.
    Overtaking found;
    found.tried_all = !runs.empty() && held.size() == 1;
    const Holds short_holds = runs_.shorter(holds);
    for (const auto& [stream, submissions] : candidates) {
      const std::vector<std::uint32_t> numbers(submissions.begin(), submissions.end());
      const auto heals = [&, on = stream](std::size_t index) {
        return runs_.heals(short_holds, {on, numbers[index]});
      };
      const Answer first = heals(0);
      if (first != Answer::no) found.tried_all = false;
      if (first != Answer::yes) continue;
      std::size_t low = 0, high = numbers.size(); // the last one that heals is in [low, high)
      while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        const Answer answer = heals(middle);
        if (answer == Answer::unknown) break;
        (answer == Answer::yes ? low : high) = middle;
      }
      found.place = watch::HoldPlace{stream, numbers[low]};
      found.others = high - low - 1;
      return found;
    }
    return found;
  }

  void say_what_overtook(const Holds& holds, const std::vector<Run>& runs) {
    const Overtaking found = overtaking(holds, runs);
    if (!found.place)
      return say(
          found.tried_all
              ? "no submission to another stream explains the change. Perhaps the host reads or writes "
                "memory too early"
              : "the second call was not found, because this machine was too busy, or because several "
                "calls are held: it may be a submission to another stream, or the host that reads or "
                "writes memory. Try again on an idle machine");
    for (const Run& run : runs) {
      const json shown = run.holds();
      if (find_hold(shown, *found.place) == nullptr) continue;
      print_hold(shown, *found.place,
                 "overtaken by, for the result is the usual one if this is held for longer");
      break;
    }
    if (found.others > 0)
      say("this machine was too busy to tell whether it is this call, or one of the next " +
          std::to_string(found.others) + " on its stream");
  }

  /// Returns the plan with the fewest holds.
  std::string report(const Holds& all) {
    const Holds holds = runs_.changes(all) ? fewest(all) : all;
    std::vector<Run> changed; // the runs that show the change
    std::optional<Run> usual;
    for (int i = 0; i < repetitions; ++i) {
      Run now = runs_.run(plan_of(holds));
      if (runs_.is_usual(now))
        usual = std::move(now);
      else
        changed.push_back(std::move(now));
    }
    const Run& run = changed.empty() ? *usual : changed.back();
    say("the fewest holds that change the result: " + std::to_string(holds.size()) + " of " +
        std::to_string(all.size()) + ", in " + std::to_string(changed.size()) + " of 3 runs");
    const json shown = run.holds();
    for (const Hold& hold : holds)
      print_hold(shown, {hold.stream, hold.submission}, "held for " + milliseconds(hold.microseconds));
    say_what_overtook(holds, changed);
    runs_.show("with these holds", run.outcome);
    runs_.say_how_to_repeat(plan_of(holds));
    return plan_of(holds);
  }

  const WatchOptions& options_;
  JitterRuns runs_;
};

} // namespace

int check_with_jitter(const WatchOptions& options) {
  const ObeyedSignals signals(Reports::none);
  return Search(options).run();
}

} // namespace cli
