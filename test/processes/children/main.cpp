// SPDX-License-Identifier: MIT
// Runs one scenario, named on the command line. Exits with 0 and prints nothing if everything was
// as expected. A scenario that hangs prints where.
#include "scenario.hpp"

#include <gpu.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace process {

namespace {

std::atomic<const char*> last_step{"the beginning"};

void say_where(int) {
  for (const char* text : {"never returned from: ", last_step.load(), "\n"})
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  _exit(1);
}

void name_device() {
  try {
    std::puts(gpu::Gpu().name().c_str());
  } catch (const cuevent::DriverUnavailable& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(77);
  }
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = {{"name-device", name_device}};
  for (const auto& some : {completion_queue_scenarios, error_hook_scenarios, exit_scenarios, hang_scenarios,
                           semaphore_guard_scenarios, timeline_fence_scenarios}) {
    const std::vector<Scenario> scenarios = some();
    all.insert(all.end(), scenarios.begin(), scenarios.end());
  }
  return all;
}

} // namespace

void step(const char* what) { last_step = what; }

} // namespace process

int main(int argc, char** argv) {
  std::signal(SIGALRM, process::say_where);
  alarm(40);
  for (const auto& [name, run] : process::all_scenarios()) {
    if (argc != 2 || std::strcmp(argv[1], name) != 0) continue;
    try {
      run();
    } catch (const std::exception& error) {
      process::expect(false, std::string("no exception: ") + error.what());
    }
    return process::disappointed();
  }
  std::fputs("usage: scenarios SCENARIO\n", stderr);
  return 2;
}
