// SPDX-License-Identifier: MIT
// `watch_mistakes NAME` runs a program of the suite, and `--list` prints all of them.
#include "suite.hpp"

#include <cstring>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  alarm(10); // a device may hang in some of the mistakes
  const bool list = std::strcmp(argv[1], "--list") == 0;
  for (const Program& each : programs()) {
    if (list) std::printf("%s\t%s\t%s\t%s\n", each.kind, each.name, each.options, each.what);
    if (std::strcmp(each.name, argv[1]) != 0) continue;
    Gpu gpu;
    each.run(gpu);
    return 0;
  }
  return list ? 0 : 2;
}
