// SPDX-License-Identifier: MIT
// random [--driver=LIBRARY] [--jobs=N] [--seconds=LIMIT] [--except=FILE] SEEDS
//   prints the answers of a driver to random programs, in the form of a recording, and in the order in which
//   the programs end, up to LIMIT. Seeds that the recording FILE has are not run.
// random --show SEEDS
//   prints the programs.

#include "program.hpp"
#include "recording.hpp"
#include "workers.hpp"

#include "../transcript/api.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string_view>

namespace {

/// The seeds of the recording.
std::set<std::uint64_t> recorded_seeds(const char* file) {
  std::ifstream recording(file);
  std::set<std::uint64_t> seeds;
  for (std::string line; std::getline(recording, line);)
    if (const auto program = conformance::parse_recorded_line(line)) seeds.insert(program->seed);
  return seeds;
}

} // namespace

int main(int argc, char** argv) {
  using namespace conformance;
  worker_main(argc, argv);

  RunOptions options;
  bool show = false;
  std::optional<Seeds> seeds;
  std::set<std::uint64_t> there;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--driver="))
      options.library = word.substr(9);
    else if (word.starts_with("--jobs="))
      options.jobs = std::atoi(argv[i] + 7);
    else if (word.starts_with("--seconds="))
      options.time_limit = std::chrono::seconds(std::atoi(argv[i] + 10));
    else if (word.starts_with("--except="))
      there = recorded_seeds(argv[i] + 9);
    else if (word == "--show")
      show = true;
    else
      seeds = parse_seeds(word);
  }
  if (!seeds || options.jobs < 1) {
    std::fprintf(stderr,
                 "usage: %s [--driver=LIBRARY] [--jobs=N] [--seconds=LIMIT] [--except=FILE] SEEDS\n"
                 "       %s --show SEEDS\n  SEEDS: N for 1-N, or A-B\n",
                 argv[0], argv[0]);
    return 2;
  }
  if (show) {
    for (std::uint64_t seed = seeds->first; seed <= seeds->last; ++seed)
      std::printf("# seed %llu\n%s", static_cast<unsigned long long>(seed),
                  text_of(program_of(seed)).c_str());
    return 0;
  }
  options.seeds = seeds->all();
  std::erase_if(options.seeds, [&](std::uint64_t seed) { return there.count(seed) != 0; });
  try {
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
