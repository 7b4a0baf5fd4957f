// SPDX-License-Identifier: MIT
// transcript [--driver=LIBRARY] [--only=PREFIX] [--apart] [--probes] [--watchdog=SECONDS] [--list]

#include "api.hpp"
#include "transcript.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) {
  transcript::child_main(argc, argv);

  transcript::Options options;
  bool list = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [word] { return std::string(word.substr(word.find('=') + 1)); };
    if (word.starts_with("--driver=")) {
      options.driver = value();
    } else if (word.starts_with("--only=")) {
      options.only = value();
    } else if (word.starts_with("--watchdog=")) {
      options.watchdog_s = static_cast<unsigned>(std::atoi(value().c_str()));
    } else if (word == "--apart") {
      options.apart = true;
    } else if (word == "--probes") {
      options.probes = true;
    } else if (word == "--list") {
      list = true;
    } else {
      std::fprintf(stderr,
                   "usage: %s [--driver=LIBRARY] [--only=PREFIX] [--apart] [--probes] "
                   "[--watchdog=SECONDS] [--list]\n",
                   argv[0]);
      return 2;
    }
  }
  if (list) {
    for (const std::string& name : transcript::scenario_names(options))
      std::puts(name.c_str());
    return 0;
  }
  try {
    const auto print = [](std::string_view line) {
      std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
      std::fflush(stdout);
    };
    return transcript::run_transcript(options, print) == 0 ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "transcript: %s\n", failure.what());
    return 77; // there is no driver here; test runners count 77 as skipped
  }
}
