// SPDX-License-Identifier: MIT
// random [--driver=LIBRARY] [--jobs=N] [--seconds=LIMIT] [--show] SEEDS: prints the answers of a
// driver to random programs, in the form of a recording; or the programs.

#include "program.hpp"
#include "recording.hpp"
#include "workers.hpp"

#include "../transcript/api.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

int main(int argc, char** argv) {
  using namespace conformance;
  worker_main(argc, argv);

  RunOptions options;
  bool show = false;
  std::optional<Seeds> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--driver="))
      options.library = word.substr(9);
    else if (word.starts_with("--jobs="))
      options.jobs = std::atoi(argv[i] + 7);
    else if (word.starts_with("--seconds="))
      options.time_limit = std::chrono::seconds(std::atoi(argv[i] + 10));
    else if (word == "--show")
      show = true;
    else
      seeds = parse_seeds(word);
  }
  if (!seeds || options.jobs < 1) {
    std::fprintf(stderr,
                 "usage: %s [--driver=LIBRARY] [--jobs=N] [--seconds=LIMIT] [--show] SEEDS\n  SEEDS: N for "
                 "1-N, or A-B\n",
                 argv[0]);
    return 2;
  }
  if (show) {
    for (std::uint64_t seed = seeds->first; seed <= seeds->last; ++seed)
      std::printf("# seed %llu\n%s", static_cast<unsigned long long>(seed),
                  text_of(program_of(seed)).c_str());
    return 0;
  }
  options.seeds = seeds->all();
  try {
    const Answering answering = who_answers(options.library);
    for (const std::string& line : answering.about)
      std::printf("# %s\n", line.c_str());
    std::fflush(stdout);
    if (const std::size_t left_out = answering.leave_out(options.seeds); left_out != 0)
      std::fprintf(stderr, "random: %zu programs are not run: they need a second device\n", left_out);
    std::map<std::uint64_t, std::string> early; // those that came before an earlier seed
    auto next = options.seeds.begin();
    run_seeds(options, [&](std::uint64_t seed, const std::string& answers) {
      early[seed] = answers;
      while (!early.empty() && early.begin()->first == *next) {
        std::puts(recorded_line(*next++, early.begin()->second).c_str());
        early.erase(early.begin());
      }
      std::fflush(stdout);
    });
    for (const auto& [number, answers] : early) // a seed between was not run in time
      std::puts(recorded_line(number, answers).c_str());
    return 0;
  } catch (const NoDriver& failure) {
    std::fprintf(stderr, "random: %s\n", failure.what());
    return 77;
  }
}
