// SPDX-License-Identifier: MIT
// What measure() is worth, as tables for a page: ways to cheat, honest work, kernels of known length, the
// same measurement again and again, and what each costs. `measure cheats honest` runs two of the parts.
// Exits with 1 if a cheat is not caught, honest work is refused, or a bound is exceeded. Without a real
// driver, this runs on the simulated one, whose virtual clock only shows that it works.
#include "../driver_at_hand.hpp"
#include "testbed.hpp"

#include <exit_code.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

using namespace measuring;

constexpr struct {
  const char* name;
  bool (*run)(const Testbed&);
} parts[] = {{"cheats", catch_cheats},
             {"honest", measure_honest_work},
             {"lengths", measure_known_lengths},
             {"repeats", measure_again_and_again}};

int run(const std::vector<std::string_view>& names) {
  const cuevent::Driver& driver = driver_at_hand(cuevent::sim::Mode::stepped);
  const gpu::Gpu gpu(driver);
  const std::time_t now = std::time(nullptr);
  char date[20] = "";
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::printf("%s, driver %d, %s%s\n", gpu.name().c_str(), driver.version(), date,
              gpu.simulated() ? ": no device, so the times mean nothing" : "");
  const auto begun = std::chrono::steady_clock::now();
  const Testbed testbed(gpu);
  bool right = true;
  for (const auto& part : parts)
    if (names.empty() || std::find(names.begin(), names.end(), part.name) != names.end())
      right &= part.run(testbed);
  std::printf("\n%s It took %.0f s.\n", right ? "All is as it should be." : "Something is WRONG.",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  return right ? 0 : 1;
}

} // namespace

int main(int count, char** arguments) {
  alarm(240); // a hang must not hold the device
  return exit_code([&] { return run({arguments + 1, arguments + count}); });
}
