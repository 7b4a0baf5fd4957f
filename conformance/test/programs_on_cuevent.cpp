// SPDX-License-Identifier: MIT
// Random programs through cuevent: programs_on_cuevent LIBRARY RECORDING DIFFERENCES FIRST-LAST.
// The program has to get the recorded answers, so cuevent has to make the same driver calls, and its own
// calls must disturb nothing.
// - Each call of an event goes through a DriverEvent or a lease: events_on_cuevent.hpp. cuevent returns what
//   the driver returned, or refuses the call with a documented result. After a refusal the plain call is
//   made, because the program goes on from there.
// - A CompletionQueue and a TimelineFence follow the program's work: work_on_cuevent.hpp.
// - Another thread does the same at the same time: neighbour.hpp.
// - No call changes the current context.
// - After a program, all events are destroyed or idle in a pool.
#include "events_on_cuevent.hpp"
#include "neighbour.hpp"
#include "through_cuevent.hpp"
#include "work_on_cuevent.hpp"

#include "comparison.hpp"
#include "interpreter.hpp"
#include "recording.hpp"
#include "watchdog.hpp"

#include "../transcript/start_again.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

using namespace on_cuevent;

int main(int argc, char** argv) {
  const auto seeds = argc == 5 || argc == 6 ? conformance::parse_seeds(argv[4]) : std::nullopt;
  if (!seeds) {
    std::fprintf(stderr, "usage: %s LIBRARY RECORDING DIFFERENCES SEEDS\n", argv[0]);
    return 2;
  }
  mistakes = argc == 6 ? std::atoi(argv[5]) : 0; // of the processes before, see below
  plain = transcript::Api::load(argv[1]);
  driver.emplace(find);
  const transcript::Api api = work_through_cuevent(events_through_cuevent());
  conformance::Watchdog watchdog;
  conformance::Interpreter interpreter(api, argv[1], watchdog);
  std::ifstream recording(argv[2]), differences(argv[3]);
  std::set<std::uint64_t> known; // the simulated driver answers these in another way, with a reason
  for (std::string line; std::getline(differences, line);)
    known.insert(std::strtoull(line.c_str(), nullptr, 10));
  int run = 0;
  for (std::string line; std::getline(recording, line);) {
    const auto recorded = conformance::parse_recorded_line(line);
    if (!recorded || !seeds->contain(recorded->seed) || known.count(recorded->seed) != 0) continue;
    const auto program = conformance::program_of(recorded->seed);
    std::string answers;
    const int before = mistakes;
    events_begin(recorded->seed);
    work_begins(recorded->seed);
    std::optional<Neighbour> neighbour(std::in_place);
    interpreter.run(program, [&](const std::string& answer) { answers += answer; });
    const auto different = conformance::differences(recorded->answers, answers);
    if (!different.empty()) {
      ++mistakes;
      std::puts(conformance::explanation(program, recorded->answers, different, "recorded").c_str());
    }
    neighbour.reset();
    work_ends();
    events_end();
    if (mistakes != before)
      std::printf("in the program of seed %llu\n", static_cast<unsigned long long>(recorded->seed));
    ++run;
    if (interpreter.clean()) continue;
    // The driver is left with a capture that nobody can end: another process does the rest.
    const std::string rest = std::to_string(recorded->seed + 1) + "-" + std::to_string(seeds->last);
    const std::string so_far = std::to_string(mistakes);
    std::fflush(stdout);
    if (recorded->seed == seeds->last) continue;
    std::vector<std::string> words = transcript::this_program();
    words.insert(words.end(), {argv[1], argv[2], argv[3], rest, so_far});
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
  }
  end_leases();
  print_work();
  std::printf("%d programs in the last process, %d mistakes in all\n", run, mistakes.load());
  std::fflush(stdout);
  _exit(mistakes == 0 && run > 0 ? 0 : 1);
}
