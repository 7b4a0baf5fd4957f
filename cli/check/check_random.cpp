// SPDX-License-Identifier: MIT
#include "check/check_random.hpp"

#include "json_text.hpp"
#include "output_file.hpp"
#include "progress.hpp"

#include "answer.hpp"
#include "comparison.hpp"
#include "core/name_text.hpp"
#include "recording.hpp"
#include "shrink.hpp"
#include "workers.hpp"

#include <cuevent/driver.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using conformance::Difference;
using conformance::DifferentProgram;
using conformance::Seeds;
using Answers = std::map<std::uint64_t, std::string>; // by seed

// Not views, whose lengths take a compiler more steps than it allows for constants.
constexpr const char* recorded_programs[] = {
#include "recorded_random_programs.inc"
};

/// `seed: reason`, and comments.
constexpr std::string_view different_programs[] = {
#include "different_random_programs.inc"
};

/// Whether the simulated driver is known to answer this program otherwise.
bool known_to_differ(std::uint64_t seed) {
  const std::string beginning = std::to_string(seed) + ": ";
  for (const std::string_view line : different_programs)
    if (line.starts_with(beginning)) return true;
  return false;
}

struct Recorded {
  std::vector<std::string> about;
  Answers answers;
};

/// The recorded answers of these seeds.
Recorded recorded(const Seeds& seeds) {
  Recorded all;
  for (const std::string_view line : recorded_programs) {
    if (line.starts_with("# ")) all.about.emplace_back(line.substr(2));
    const auto program = conformance::parse_recorded_line(line);
    if (!program || !seeds.contain(program->seed)) continue;
    if (program->fingerprint != conformance::short_fingerprint(program->seed))
      throw std::runtime_error("seed " + std::to_string(program->seed) +
                               " no longer means the recorded program; record the answers again");
    all.answers.emplace(program->seed, program->answers);
  }
  return all;
}

Answers run(const std::string& library, std::vector<std::uint64_t> seeds, int jobs) {
  Progress progress("programs");
  Answers answers;
  conformance::run_seeds({.library = library, .seeds = std::move(seeds), .jobs = jobs},
                         [&](std::uint64_t seed, const std::string& given) {
                           answers[seed] = given;
                           progress.show(answers.size());
                         });
  return answers;
}

class RandomCheck {
public:
  RandomCheck(const RandomOptions& options, const Seeds& seeds, std::string library)
      : options_(options), seeds_(seeds), library_(std::move(library)) {}

  ExitCode run_and_compare() {
    answering_ = conformance::who_answers(library_);
    expect();
    auto seeds = seeds_to_run();
    left_out_ += answering_.leave_out(seeds);
    here_ = run(library_, std::move(seeds), options_.jobs);
    if (!options_.record.empty()) record();
    for (const auto& [seed, answers] : expected_)
      if (here_.count(seed) != 0) compare(seed, answers);
    options_.json ? print_json() : print();
    if (compared_ == 0 && left_out_ == 0 && options_.record.empty()) {
      std::fprintf(
          stderr,
          "cuevent: no answers were recorded for these seeds; --reference compares with another driver\n");
      return usage;
    }
    return different_.empty() ? success : failure;
  }

private:
  void expect() {
    if (options_.reference.empty()) {
      Recorded all = recorded(seeds_);
      expected_about_ = std::move(all.about);
      expected_ = std::move(all.answers);
    } else {
      const conformance::Answering reference = conformance::who_answers(options_.reference);
      auto seeds = seeds_.all();
      left_out_ = reference.leave_out(seeds) + answering_.leave_out(seeds);
      expected_about_ = reference.about;
      expected_ = run(options_.reference, std::move(seeds), options_.jobs);
    }
  }

  /// Those whose answers are expected, or all if they are to be recorded.
  std::vector<std::uint64_t> seeds_to_run() const {
    if (!options_.record.empty()) return seeds_.all();
    std::vector<std::uint64_t> seeds;
    for (const auto& [seed, answers] : expected_)
      seeds.push_back(seed);
    return seeds;
  }

  void record() const {
    std::string text;
    for (const std::string& line : answering_.about)
      text += "# " + cuevent::printable(line) + "\n";
    for (const auto& [seed, answers] : here_)
      text += conformance::recorded_line(seed, answers) + "\n";
    write_file(options_.record, text);
  }

  void compare(std::uint64_t seed, const std::string& expected) {
    ++compared_;
    if (here_.at(seed) == expected) return;
    auto confirmed = conformance::confirmed_difference(seed, expected, library_, options_.reference);
    const bool simulated = answering_.about.front().starts_with("device: cuevent simulated device ");
    if (!confirmed) {
      ++unsteady_;
    } else if (simulated && options_.reference.empty() && known_to_differ(seed)) {
      ++explained_;
    } else {
      different_.push_back(std::move(*confirmed));
    }
  }

  void print() const {
    const char* const other = options_.reference.empty() ? "recorded" : "there";
    for (const std::string& line : expected_about_)
      std::printf("%-8s  %s\n", other, cuevent::printable(line).c_str());
    for (const std::string& line : answering_.about)
      std::printf("here      %s\n", cuevent::printable(line).c_str());
    std::puts("");
    for (const DifferentProgram& one : different_)
      std::printf("seed %llu\n%s\n", static_cast<unsigned long long>(one.seed),
                  conformance::explanation(one.program, one.expected, one.differences, other).c_str());
    std::printf("%zu programs compared, %zu differ\n", compared_, different_.size());
    if (explained_ != 0)
      std::printf("%zu more differ for known reasons, because this is the simulated driver\n", explained_);
    if (left_out_ != 0) std::printf("%zu more were not run, because they need a second device\n", left_out_);
    if (unsteady_ != 0)
      std::printf("%zu more differed at first, but not in a process of their own\n", unsteady_);
  }

  void print_json() const {
    Json list = Json::array();
    for (const DifferentProgram& one : different_) {
      Json program = Json::array();
      for (const conformance::Call& call : one.program)
        program.push_back(conformance::text_of(call));
      const Difference& first = one.differences.front();
      list.push_back({{"seed", one.seed},
                      {"program", std::move(program)},
                      {"call", first.call + 1},
                      {"expected", conformance::long_form(first.expected)},
                      {"here", conformance::long_form(first.here)}});
    }
    const Json all = {{options_.reference.empty() ? "recorded" : "reference", expected_about_},
                      {"here", answering_.about},
                      {"compared", compared_},
                      {"explained", explained_},
                      {"unsteady", unsteady_},
                      {"left_out", left_out_},
                      {"differences", std::move(list)}};
    std::puts(json_text(all).c_str());
  }

  const RandomOptions& options_;
  const Seeds seeds_;
  const std::string library_;
  std::vector<std::string> expected_about_;
  conformance::Answering answering_;
  Answers here_, expected_;
  std::vector<DifferentProgram> different_;
  std::size_t compared_ = 0, unsteady_ = 0, explained_ = 0, left_out_ = 0;
};

} // namespace

ExitCode check_random(const RandomOptions& options) {
  const auto seeds = conformance::parse_seeds(options.seeds);
  if (!seeds) {
    std::fprintf(stderr, "cuevent: \"%s\" names no seeds; write N for the seeds 1 to N, or A-B\n",
                 cuevent::printable(options.seeds).c_str());
    return usage;
  }
  setenv("CUEVENT_SIM_MODE", "stepped", 1); // the simulated driver is quickest so; others do not read it
  cuevent::Driver::instance();              // says in words why there is none
  std::string library = "libcuda.so.1";
  if (const char* const named = secure_getenv("CUEVENT_DRIVER"); named != nullptr && *named != '\0')
    library = named;
  return RandomCheck(options, *seeds, library).run_and_compare();
}

} // namespace cli
