// SPDX-License-Identifier: MIT
#include "check/check.hpp"

#include "check/answers.hpp"
#include "json_text.hpp"
#include "progress.hpp"

#include "core/name_text.hpp"
#include "transcript.hpp"

#include <cuevent/driver.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using cuevent::printable;

constexpr const char* recorded_lines[] = {
// as views, they would be too many for a constant
#include "recorded_transcript.inc"
};
/// `prefix of names: reason`, and comments
constexpr std::string_view known_difference_lines[] = {
#include "known_differences.inc"
};
constexpr std::string_view device_difference_lines[] = {
#include "device_differences.inc"
};

struct DifferentAnswer {
  std::string name, recorded, here;
  std::string_view reason{}; // empty: unknown
};

/// What the processes of scenarios printed to standard error, by scenario. Some crash on purpose.
using Said = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Reads a line of `transcript::said`.
void hear(std::string_view line, Said& said) {
  line.remove_prefix(transcript::said.size());
  const auto colon = line.find(": ");
  if (colon != std::string_view::npos)
    said[std::string(line.substr(0, colon))].emplace_back(line.substr(colon + 2));
}

bool is_of(std::string_view name, const std::string& scenario) {
  return name.starts_with(scenario) && name.substr(scenario.size()).starts_with(".");
}

/// The scenario that gave an answer. The names of some scenarios begin with the name of another.
std::string_view scenario_of(std::string_view name, const std::vector<std::string>& scenarios) {
  std::string_view longest;
  for (const std::string& scenario : scenarios)
    if (scenario.size() > longest.size() && is_of(name, scenario)) longest = scenario;
  return longest;
}

Transcript recorded() {
  Transcript transcript;
  for (const std::string_view line : recorded_lines)
    transcript.add(line);
  return transcript;
}

/// The scenarios that did not run. A scenario that runs reports at least how its process ended.
std::vector<std::string> left_out(const std::vector<std::string>& scenarios, const Answers& answers) {
  std::vector<std::string> names;
  for (const std::string& scenario : scenarios) {
    const auto first = answers.lower_bound(scenario + ".");
    if (first == answers.end() || !is_of(first->first, scenario)) names.push_back(scenario);
  }
  return names;
}

/// The known differences of the simulated driver, or of devices.
std::vector<KnownDifference> known_differences(const Transcript& here) {
  std::vector<KnownDifference> known;
  const auto read = [&](const auto& lines) {
    for (const std::string_view line : lines)
      if (const auto difference = known_difference_in(line)) known.push_back(*difference);
  };
  here.is_of_simulator() ? read(known_difference_lines) : read(device_difference_lines);
  return known;
}

class Comparison {
public:
  Comparison(const Transcript& here, const CheckOptions& options, const std::vector<std::string>& scenarios,
             const Said& said)
      : recorded_(recorded()), here_(here), scenarios_(scenarios), said_(said),
        left_out_(cli::left_out(scenarios, here.answers)), known_(known_differences(here)) {
    for (const auto& [name, answer] : recorded_.answers) {
      if (!name.starts_with(options.only) || is_left_out(name)) continue;
      ++compared_;
      const auto other = here_.answers.find(name);
      if (other == here_.answers.end())
        add({name, answer, "nothing"});
      else if (other->second != answer)
        add({name, answer, other->second});
    }
    for (const auto& [name, answer] : here_.answers) {
      // A scenario that was recorded together with others does not report the end of its process.
      if (!recorded_.answers.contains(name) && !(name.ends_with(".process") && answer == "exited 0"))
        add({name, "nothing", answer});
    }
    // Not every reason had a chance to apply, or the device may be of the recorded kind.
    if (!options.only.empty() || !left_out_.empty() || !here_.is_of_simulator()) return;
    for (const KnownDifference& known : known_)
      if (!known.seen) outdated_.push_back(std::string(known.prefix));
  }

  /// The scenarios with a difference that has no known reason.
  std::vector<std::string> different_scenarios() const {
    std::vector<std::string> different;
    for (const DifferentAnswer& difference : differences_) {
      const std::string scenario(scenario_of(difference.name, scenarios_));
      if (std::find(different.begin(), different.end(), scenario) == different.end())
        different.push_back(scenario);
    }
    return different;
  }

  bool same() const { return compared_ != 0 && differences_.empty() && outdated_.empty(); }

  void print(bool with_explained) const {
    if (with_explained) print(explained_);
    if (!same()) print_differences();
    std::printf("%zu answers compared, %zu differ\n", compared_, differences_.size());
    if (!explained_.empty())
      std::printf("%zu more differ for known reasons%s%s\n", explained_.size(),
                  here_.is_of_simulator() ? ", because this is the simulated driver" : "",
                  with_explained ? "" : ": --explained lists them");
    if (!left_out_.empty())
      std::printf("%zu of %zu scenarios did not run, because they need a second device\n", left_out_.size(),
                  scenarios_.size());
  }

  void print_json() const {
    const Json all = {{"recorded", recorded_.about},
                      {"here", here_.about},
                      {"compared", compared_},
                      {"left_out", left_out_},
                      {"differences", json_of(differences_)},
                      {"explained", json_of(explained_)},
                      {"outdated_reasons", outdated_}};
    std::puts(json_text(all).c_str());
  }

private:
  void print_differences() const {
    for (const std::string& line : recorded_.about)
      std::printf("recorded  %s\n", printable(line).c_str());
    for (const std::string& line : here_.about)
      std::printf("here      %s\n", printable(line).c_str());
    std::puts("");
    print(differences_);
    for (const std::string& scenario : different_scenarios())
      if (const auto words = said_.find(scenario); words != said_.end()) {
        std::printf("the process of %s said\n", scenario.c_str());
        for (const std::string& line : words->second)
          std::printf("  %s\n", printable(line).c_str());
      }
    for (const std::string& prefix : outdated_)
      std::printf("%s\n  listed as a known difference, but the answers are the same\n", prefix.c_str());
  }

  void add(DifferentAnswer difference) {
    for (KnownDifference& known : known_) {
      if (!difference.name.starts_with(known.prefix)) continue;
      known.seen = true;
      difference.reason = known.reason;
      explained_.push_back(std::move(difference));
      return;
    }
    differences_.push_back(std::move(difference));
  }

  bool is_left_out(std::string_view name) const {
    for (const std::string& scenario : left_out_)
      if (is_of(name, scenario)) return true;
    return false;
  }

  static void print(const std::vector<DifferentAnswer>& differences) {
    for (const DifferentAnswer& difference : differences) {
      std::printf("%s\n  recorded  %s\n  here      %s\n", printable(difference.name).c_str(),
                  printable(difference.recorded).c_str(), printable(difference.here).c_str());
      if (!difference.reason.empty())
        std::printf("  because   %.*s\n", static_cast<int>(difference.reason.size()),
                    difference.reason.data());
    }
  }

  static Json json_of(const std::vector<DifferentAnswer>& differences) {
    Json all = Json::array();
    for (const DifferentAnswer& difference : differences) {
      Json one = {{"name", difference.name}, {"recorded", difference.recorded}, {"here", difference.here}};
      if (!difference.reason.empty()) one["reason"] = difference.reason;
      all.push_back(std::move(one));
    }
    return all;
  }

  const Transcript recorded_;
  const Transcript& here_;
  const std::vector<std::string>& scenarios_;
  const Said& said_;
  const std::vector<std::string> left_out_;
  std::vector<KnownDifference> known_;
  std::vector<DifferentAnswer> differences_, explained_;
  std::vector<std::string> outdated_; // prefixes that no longer explain any difference
  std::size_t compared_ = 0;
};

/// The settings that the scenarios need in the simulated driver. The driver reads them when it is loaded,
/// here and in the process of each scenario. Other drivers ignore them. Devices and kernels that the user
/// has set stay.
void set_up_simulator() {
  setenv("CUEVENT_SIM_MODE", "running", 1);
  setenv("CUEVENT_SIM_DEVICES", "2", 0);
  setenv("CUEVENT_SIM_FAULTY_KERNEL", "write_illegal_address", 0);
}

} // namespace

ExitCode check(const CheckOptions& check_options) {
  const std::string& only = check_options.only;
  set_up_simulator();
  cuevent::Driver::instance(); // if there is no driver, throws an error that says why

  transcript::Options options;
  options.only = only;
  options.apart = true; // a driver that crashes in one scenario still answers the others
  if (const char* const named = secure_getenv("CUEVENT_DRIVER"); named != nullptr && *named != '\0')
    options.driver = named;
  const std::vector<std::string> scenarios = transcript::scenario_names(options);
  if (scenarios.empty()) {
    std::fprintf(stderr, "cuevent: no scenario's name starts with \"%s\"\n", printable(only).c_str());
    return usage;
  }

  Transcript here;
  Said said;
  Progress progress("of " + std::to_string(scenarios.size()) + " scenarios");
  std::size_t ended = 0;
  const auto listen = [&](std::string_view line) {
    if (line.starts_with(transcript::said)) return hear(line, said);
    here.add(line);
    if (line.find(".process = ") != std::string_view::npos) ++ended;
    progress.show(ended);
  };
  progress.show(0); // the first context can take seconds
  transcript::run_transcript(options, listen);
  // The scenarios before one can have left something behind that changes an answer.
  options.alone = Comparison(here, check_options, scenarios, said).different_scenarios();
  if (!options.alone.empty()) {
    const auto runs_again = [&](const auto& answer) {
      const auto scenario = scenario_of(answer.first, scenarios);
      return std::find(options.alone.begin(), options.alone.end(), scenario) != options.alone.end();
    };
    std::erase_if(here.answers, runs_again);
    for (const std::string& scenario : options.alone)
      said.erase(scenario);
    ended -= options.alone.size();
    transcript::run_transcript(options, [&](std::string_view line) {
      if (!line.starts_with("#") || line.starts_with(transcript::said)) listen(line); // who answers is known
    });
  }
  progress.erase();
  const Comparison comparison(here, check_options, scenarios, said);
  check_options.json ? comparison.print_json() : comparison.print(check_options.explained);
  return comparison.same() ? success : failure;
}

} // namespace cli
