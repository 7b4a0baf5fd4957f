// SPDX-License-Identifier: MIT
// The programs that test the rules of `cuevent watch`: `watch_programs RULE` makes the mistake, and
// `watch_programs near RULE` comes close to it. `--list` prints the rules and their options. They are linked
// with libcuda and know nothing of cuevent.

#include "programs.hpp"

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  const bool near = argc == 3 && std::strcmp(argv[1], "near") == 0;
  if (argc == 2 || near)
    for (const Programs& programs : all_programs())
      if (std::strcmp(programs.rule, argv[argc - 1]) == 0) {
        Gpu gpu;
        (near ? programs.near : programs.mistake)(gpu);
        return 0;
      }
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0)
    for (const Programs& programs : all_programs())
      std::printf("%s %s\n", programs.rule, programs.option);
  return argc == 2 ? 0 : 2;
}
