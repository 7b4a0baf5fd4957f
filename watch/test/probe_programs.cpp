// SPDX-License-Identifier: MIT
// Programs that test the probes of the auditing library, from inside: `watch_probes WAY`.
// `watch_probes WAY forked` does the same in two processes.

#include "probe_programs.hpp"

#include <sys/wait.h>

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[2], "forked") == 0) { // both processes, before the first call of either
    const pid_t child = fork();
    int status = 0;
    if (child != 0) waitpid(child, &status, 0);
    require(status == 0, "the forked child");
    argc = 2;
  }
  for (const auto* const ways : {&stream_ways(), &process_ways()})
    for (const Way& way : *ways) {
      if (argc != 2 || std::strcmp(argv[1], way.name) != 0) continue;
      Gpu gpu;
      way.run(gpu);
      return 0;
    }
  return 2;
}
