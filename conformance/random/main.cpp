// SPDX-License-Identifier: MIT
// random [--driver=LIBRARY] [--jobs=N] [--seconds=LIMIT] [--except=FILE] SEEDS
//   prints the answers of a driver to random programs, in the form of a recording, and in the order in which
//   the programs end, up to LIMIT. Seeds that the recording FILE has are not run.
// random [--driver=LIBRARY] --expected=FILE [--reference=OTHER] [--seconds=LIMIT]
//   runs the programs of the recording FILE and prints those that the driver answers differently. With the
//   driver that FILE was recorded from, each becomes as short as possible. After LIMIT they stay long.
// random --show SEEDS
//   prints the programs.

#include "program.hpp"
#include "recording.hpp"
#include "shrink.hpp"
#include "workers.hpp"

#include "../transcript/api.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Answers = std::map<std::uint64_t, std::string>; // by seed

Answers recorded_answers(const std::string& file) {
  std::ifstream recording(file);
  Answers answers;
  for (std::string line; std::getline(recording, line);) {
    const auto program = conformance::parse_recorded_line(line);
    if (!program) continue;
    if (program->fingerprint != conformance::short_fingerprint(program->seed))
      throw conformance::NoDriver(file + ": a seed means another program now");
    answers.emplace(program->seed, program->answers);
  }
  return answers;
}

/// The exit status: 1 if a program differs.
int compare(conformance::RunOptions options, const Answers& expected, const std::string& reference) {
  const auto deadline = std::chrono::steady_clock::now() + options.time_limit;
  options.seeds.clear();
  for (const auto& [seed, answers] : expected)
    options.seeds.push_back(seed);
  std::vector<std::uint64_t> differing;
  std::size_t compared = 0, different = 0;
  conformance::run_seeds(options, [&](std::uint64_t seed, const std::string& answers) {
    ++compared;
    if (answers != expected.at(seed)) differing.push_back(seed);
  });
  std::sort(differing.begin(), differing.end());
  for (const std::uint64_t seed : differing) {
    const bool in_time = std::chrono::steady_clock::now() < deadline;
    const auto found = conformance::confirmed_difference(seed, expected.at(seed), options.library,
                                                         in_time ? reference : std::string());
    if (!found) continue;
    ++different;
    std::printf(
        "seed %llu\n%s\n", static_cast<unsigned long long>(seed),
        conformance::explanation(found->program, found->expected, found->differences, "expected").c_str());
    std::fflush(stdout);
  }
  std::printf("%zu programs compared, %zu differ\n", compared, different);
  if (compared != expected.size()) std::printf("%zu more were not run in time\n", expected.size() - compared);
  return different == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  using namespace conformance;
  worker_main(argc, argv);

  RunOptions options;
  bool show = false;
  std::optional<Seeds> seeds;
  std::string except, expected, reference;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--driver="))
      options.library = word.substr(9);
    else if (word.starts_with("--jobs="))
      options.jobs = std::atoi(argv[i] + 7);
    else if (word.starts_with("--seconds="))
      options.time_limit = std::chrono::seconds(std::atoi(argv[i] + 10));
    else if (word.starts_with("--except="))
      except = word.substr(9);
    else if (word.starts_with("--expected="))
      expected = word.substr(11);
    else if (word.starts_with("--reference="))
      reference = word.substr(12);
    else if (word == "--show")
      show = true;
    else
      seeds = parse_seeds(word);
  }
  if (seeds.has_value() == !expected.empty() || (show && !seeds) || options.jobs < 1) {
    std::fprintf(stderr,
                 "usage: %s [--driver=LIBRARY] [--jobs=N] [--seconds=LIMIT] [--except=FILE] SEEDS\n"
                 "       %s [--driver=LIBRARY] --expected=FILE [--reference=OTHER] [--seconds=LIMIT]\n"
                 "       %s --show SEEDS\n  SEEDS: N for 1-N, or A-B\n",
                 argv[0], argv[0], argv[0]);
    return 2;
  }
  if (show) {
    for (std::uint64_t seed = seeds->first; seed <= seeds->last; ++seed)
      std::printf("# seed %llu\n%s", static_cast<unsigned long long>(seed),
                  text_of(program_of(seed)).c_str());
    return 0;
  }
  try {
    if (!expected.empty()) return compare(options, recorded_answers(expected), reference);
    options.seeds = seeds->all();
    if (!except.empty()) {
      const Answers there = recorded_answers(except);
      std::erase_if(options.seeds, [&](std::uint64_t seed) { return there.count(seed) != 0; });
    }
    const Answering answering = who_answers(options.library);
    for (const std::string& line : answering.about)
      std::printf("# %s\n", line.c_str());
    std::fflush(stdout);
    if (const std::size_t left_out = answering.leave_out(options.seeds); left_out != 0)
      std::fprintf(stderr, "random: %zu programs are not run: they need a second device\n", left_out);
    run_seeds(options, [](std::uint64_t seed, const std::string& answers) {
      std::puts(recorded_line(seed, answers).c_str());
      std::fflush(stdout); // whoever ends this process keeps what there is
    });
    return 0;
  } catch (const NoDriver& failure) {
    std::fprintf(stderr, "random: %s\n", failure.what());
    return 77;
  }
}
