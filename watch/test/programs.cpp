// SPDX-License-Identifier: MIT
// `PROGRAMS [corrected] NAME...` runs programs one after another: the mistake, or what is right in its place.
// `forked` before a name lets two processes run it. `--list` prints all programs. They are linked with
// libcuda, and know nothing of cuevent.
#include "driver_calls.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

std::vector<Program>& programs() {
  static std::vector<Program> all;
  return all;
}

void run_on_another_thread(void (*body)(void*), void* data) { std::thread(body, data).join(); }

namespace {

/// The name of the function, with hyphens.
std::string name_of(const Program& program) {
  std::string name = program.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Both run what follows, the child first, and neither has called the driver before.
void fork_now() {
  int status = 0;
  if (const pid_t child = fork(); child != 0) waitpid(child, &status, 0);
  if (status != 0) std::exit(3);
}

} // namespace

int main(int argc, char** argv) {
  alarm(30); // a device may hang in some of the mistakes
  bool corrected = false, found = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "corrected") corrected = true;
    if (word == "forked") fork_now();
    for (const Program& each : programs()) {
      const std::string name = name_of(each);
      if (word == "--list")
        std::printf("%s\t%s\t%s\t%s\t%s\n", name.c_str(), each.rules, each.options,
                    std::strrchr(each.source, '/') + 1, each.what);
      if (word == name) {
        Gpu gpu;
        each.run(gpu, corrected);
      }
      found = found || word == name || word == "--list";
    }
  }
  return found ? 0 : 2;
}
