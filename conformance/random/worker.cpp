// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include "interpreter.hpp"
#include "watchdog.hpp"
#include "workers.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace conformance {
namespace {

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) _exit(1); // nobody listens any more
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

} // namespace

void worker_main(int argc, char** argv) {
  if (argc != 7 || std::strcmp(argv[1], worker_argument) != 0) return;
  const bool alone = std::strcmp(argv[6], "alone") == 0;
  // Streams that share a hardware queue would wait for one another's gates.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // A kernel that is loaded at its first launch may wait for all streams, those behind gates too.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  try {
    const Api api = Api::load(argv[2]);
    Watchdog watchdog;
    Interpreter interpreter(api, watchdog);
    const std::uint64_t last = std::strtoull(argv[4], nullptr, 10);
    const std::uint64_t step = std::strtoull(argv[5], nullptr, 10);
    for (std::uint64_t seed = std::strtoull(argv[3], nullptr, 10); seed <= last; seed += step) {
      std::string answers;
      interpreter.run(program_of(seed), [&](const std::string& answer) {
        if (alone)
          say(answer); // at once, so that it is known how far the program came
        else
          answers += answer;
      });
      if (interpreter.timeouts() != 0)
        std::fprintf(stderr, "seed %llu: work that should have finished did not, %u times\n",
                     static_cast<unsigned long long>(seed), interpreter.timeouts());
      say(answers + "\n");
      if (!interpreter.clean()) _exit(unclean);
    }
  } catch (const transcript::LoadFailure& failure) {
    say(std::string(no_driver) + failure.what() + "\n");
    _exit(77);
  }
  _exit(0); // what happens at exit is no part of a program
}

} // namespace conformance
