#include "check.hpp"

#include "transcript.hpp"

#include <cuevent/driver.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using Answers = std::map<std::string, std::string, std::less<>>; // by the name of the case

constexpr std::string_view recorded_lines[] = {
#include "recorded_transcript.inc"
};

/// One run of the transcript, by whichever driver.
struct Transcript {
  std::vector<std::string> about; // the driver
  Answers answers;

  void add(std::string_view line) {
    if (line.starts_with("# ")) {
      about.emplace_back(line.substr(2));
    } else if (const auto equals = line.find(" = "); equals != std::string_view::npos) {
      answers.emplace(line.substr(0, equals), line.substr(equals + 3));
    }
  }
};

struct Difference {
  std::string name, recorded, here;
};

bool is_of(std::string_view name, const std::string& scenario) {
  return name.starts_with(scenario) && name.substr(scenario.size()).starts_with(".");
}

Transcript recorded() {
  Transcript transcript;
  for (const std::string_view line : recorded_lines)
    transcript.add(line);
  return transcript;
}

/// The scenarios that did not run: each that does says at least how its process ended.
std::vector<std::string> left_out(const std::vector<std::string>& scenarios, const Answers& answers) {
  std::vector<std::string> names;
  for (const std::string& scenario : scenarios) {
    const auto first = answers.lower_bound(scenario + ".");
    if (first == answers.end() || !is_of(first->first, scenario)) names.push_back(scenario);
  }
  return names;
}

class Comparison {
public:
  Comparison(const Transcript& here, const std::string& only, const std::vector<std::string>& scenarios)
      : recorded_(recorded()), here_(here), left_out_(cli::left_out(scenarios, here.answers)) {
    for (const auto& [name, answer] : recorded_.answers) {
      if (!name.starts_with(only) || is_left_out(name)) continue;
      ++compared_;
      const auto other = here_.answers.find(name);
      if (other == here_.answers.end())
        differences_.push_back({name, answer, "nothing"});
      else if (other->second != answer)
        differences_.push_back({name, answer, other->second});
    }
    for (const auto& [name, answer] : here_.answers) {
      // A scenario that was recorded together with others has no process of its own to tell of.
      if (!recorded_.answers.contains(name) && !(name.ends_with(".process") && answer == "exited 0"))
        differences_.push_back({name, "nothing", answer});
    }
  }

  bool same() const { return compared_ != 0 && differences_.empty(); }

  void print() const {
    for (const std::string& line : recorded_.about)
      std::printf("recorded  %s\n", line.c_str());
    for (const std::string& line : here_.about)
      std::printf("here      %s\n", line.c_str());
    std::puts("");
    for (const Difference& difference : differences_)
      std::printf("%s\n  recorded  %s\n  here      %s\n", difference.name.c_str(),
                  difference.recorded.c_str(), difference.here.c_str());
    std::printf("%zu answers compared, %zu differ\n", compared_, differences_.size());
  }

  void print_json() const {
    Json differences = Json::array();
    for (const Difference& difference : differences_)
      differences.push_back(
          {{"name", difference.name}, {"recorded", difference.recorded}, {"here", difference.here}});
    const Json all = {{"recorded", recorded_.about},
                      {"here", here_.about},
                      {"compared", compared_},
                      {"left_out", left_out_},
                      {"differences", differences}};
    std::puts(all.dump(2).c_str());
  }

private:
  bool is_left_out(std::string_view name) const {
    for (const std::string& scenario : left_out_)
      if (is_of(name, scenario)) return true;
    return false;
  }

  const Transcript recorded_;
  const Transcript& here_;
  const std::vector<std::string> left_out_;
  std::vector<Difference> differences_;
  std::size_t compared_ = 0;
};

} // namespace

ExitCode check(const std::string& only, bool json) {
  cuevent::Driver::instance(); // says in words why there is none

  transcript::Options options;
  options.only = only;
  options.isolated = true; // a driver that crashes in one scenario answers the others
  if (const char* const named = secure_getenv("CUEVENT_DRIVER"); named != nullptr && *named != '\0')
    options.driver = named;
  const std::vector<std::string> scenarios = transcript::scenario_names(options);
  if (scenarios.empty()) {
    std::fprintf(stderr, "cuevent: no scenario's name starts with \"%s\"\n", only.c_str());
    return usage;
  }

  Transcript here;
  const bool watched = isatty(STDERR_FILENO) == 1; // it can take a minute
  transcript::run_transcript(options, [&](std::string_view line) {
    here.add(line);
    if (watched) std::fprintf(stderr, "\r%zu answers", here.answers.size());
  });
  if (watched) std::fputs("\r", stderr);
  const Comparison comparison(here, only, scenarios);
  json ? comparison.print_json() : comparison.print();
  return comparison.same() ? success : failure;
}

} // namespace cli
