// SPDX-License-Identifier: MIT
// `watch_order NAME` makes a mistake, `watch_order NAME corrected` does not. `--list` prints all programs.
#include "order_programs.hpp"

#include <cstring>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  alarm(30);
  const bool list = std::strcmp(argv[1], "--list") == 0;
  for (const OrderProgram& each : order_programs()) {
    if (list) std::printf("%s\t%s\t%d\t%s\n", each.name, each.rule, each.needs_pools ? 1 : 0, each.what);
    if (std::strcmp(each.name, argv[1]) != 0) continue;
    Gpu gpu;
    each.run(gpu, argc > 2);
    expect(cuCtxSynchronize());
    return 0;
  }
  return list ? 0 : 2;
}
