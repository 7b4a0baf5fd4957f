// SPDX-License-Identifier: MIT
// Runs of a program with and without holds, whose results are compared.
#pragma once

#include "protocol/jitter_plan.hpp"
#include "report/folder.hpp"
#include "watch/watch.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cli {

using Holds = std::vector<watch::Hold>;

/// What a run is compared by.
struct Outcome {
  int code = 0;       // of the program
  int check_code = 0; // of the check
  std::string output; // of the check
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Run {
  Outcome outcome;
  nlohmann::ordered_json answer; // what `cuevent watch --json` has written
  nlohmann::ordered_json holds() const;
};

class JitterRuns {
public:
  static constexpr int repetitions = 3;
  enum class Answer { yes, no, unknown };

  /// Reads the standard input, if it is a file or a pipe: each run gets all of it.
  explicit JitterRuns(const WatchOptions& options);

  /// Runs the program up to three times without holds, and returns a result that is not the usual one, if
  /// there is one. The very first run reports its findings.
  std::optional<Outcome> differing_run();
  /// The same, and throws if the results differ.
  void run_without();
  /// What the first run has found.
  const nlohmann::ordered_json& found() const { return found_; }

  /// With a seed or a list of holds; the empty plan holds nothing.
  Run run(const std::string& plan);
  bool is_usual(const Run& run) const { return run.outcome == usual_; }
  unsigned count() const { return count_; }

  /// Whether a run has another result. It may need more than one, because a busy machine can delay the host
  /// for longer than a hold.
  bool changes(const Holds& holds, int tries = 2);
  /// Half as long, if the result is then still another one each time.
  Holds shorter(Holds holds);
  /// Whether the usual result comes back if this submission is held for longer than the others. Unknown on a
  /// machine that is too busy: the submission does not come while the others are held, or the results differ.
  Answer heals(const Holds& holds, watch::HoldPlace place);

  /// Prints the usual result, and another one.
  void show(const char* what, const Outcome& outcome, const char* usual = "without jitter") const;
  void say_how_to_repeat(const std::string& plan) const;

private:
  const WatchOptions& options_;
  std::chrono::steady_clock::duration limit_ = std::chrono::minutes(1); // of one run
  unsigned count_ = 0;
  watch::OpenFile input_; // none: each run has the standard input of this command
  Outcome usual_;
  nlohmann::ordered_json found_;
};

void say(const std::string& text);
/// "2.0 ms".
std::string milliseconds(unsigned long microseconds);
/// "=1.2:2000", as --jitter takes it.
std::string plan_of(const Holds& holds);
/// Whether a submission came while another one was held. Both are entries of a run.
bool came_during(const nlohmann::ordered_json& hold, const nlohmann::ordered_json& other);
/// The entry of this submission among those of a run, or null.
const nlohmann::ordered_json* find_hold(const nlohmann::ordered_json& holds, watch::HoldPlace place);
/// Prints a call that was held, or that overtook one, with its stack.
void print_hold(const nlohmann::ordered_json& holds, watch::HoldPlace place, const std::string& what);

} // namespace cli
