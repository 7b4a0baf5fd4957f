// SPDX-License-Identifier: MIT
#include "transcript.hpp"

#include "child.hpp"
#include "lab.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace transcript {
namespace {

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all;
  for (const auto& noun : {context_scenarios,
                           event_scenarios,
                           elapsed_scenarios,
                           stream_scenarios,
                           launch_scenarios,
                           capture_scenarios,
                           capture_error_scenarios,
                           graph_scenarios,
                           ipc_scenarios,
                           interprocess_scenarios,
                           lifetime_scenarios,
                           fault_scenarios,
                           green_scenarios,
                           two_devices_scenarios,
                           order_of_checks_scenarios,
                           capture_neighbours_scenarios,
                           capture_info_scenarios,
                           capture_dependencies_scenarios,
                           capture_into_graph_scenarios,
                           completion_scenarios,
                           exec_update_scenarios,
                           ended_nodes_scenarios,
                           memory_operation_scenarios,
                           registered_memory_scenarios,
                           free_scenarios,
                           memory_queries_scenarios,
                           memory_pools_scenarios,
                           managed_memory_scenarios,
                           copies_scenarios,
                           copying_scenarios,
                           libraries_scenarios,
                           graph_nodes_scenarios,
                           stream_calls_scenarios,
                           attach_scenarios,
                           old_launch_scenarios,
                           profiler_scenarios,
                           driver_log_scenarios}) {
    for (Scenario& scenario : noun())
      all.push_back(std::move(scenario));
  }
  return all;
}

// A driver creates contexts one after another, so more processes would mostly wait for it.
constexpr std::size_t processes_at_once = 3;

bool selected(const Scenario& scenario, const Options& options) {
  if (!options.alone.empty())
    return std::find(options.alone.begin(), options.alone.end(), scenario.name) != options.alone.end();
  return scenario.place != Place::helper && (scenario.place == Place::probe) == options.probes &&
         scenario.name.starts_with(options.only);
}

// What the watchdog prints: the scenario and the last line. A plain array, because a signal handler reads it.
char last_line[256] = "the start";

void remember(std::string_view line) {
  const std::size_t length = std::min(line.size(), sizeof last_line - 1);
  std::memcpy(last_line, line.data(), length);
  last_line[length] = '\0';
}

extern "C" void watchdog_barks(int) {
  static constexpr char text[] = "transcript: no answer in time; the last line was:\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  (void)!write(STDERR_FILENO, last_line, std::strlen(last_line));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(124);
}

void start_watchdog(unsigned seconds) {
  std::signal(SIGALRM, watchdog_barks);
  alarm(seconds);
}

bool play(Lab& lab, const Scenario& scenario) {
  lab.scenario = scenario.name;
  remember(scenario.name);
  try {
    scenario.run(lab);
    return true;
  } catch (const SetUpFailure& failure) {
    lab.shows("set_up", "failed: " + std::string(failure.what()));
    return false;
  }
}

bool play_in_child(Lab& lab, const Scenario& scenario, const Sink& sink) {
  remember(scenario.name);
  Child child(lab, scenario.name);
  while (const auto line = child.read_line()) {
    remember(*line);
    sink(*line);
  }
  const std::string end = child.finish();
  sink(scenario.name + ".process = " + end);
  return end == "exited 0";
}

// One process plays many scenarios. Its scenario is `many`, its arguments are their names, and it prints
// `played` and a name after each.
constexpr const char* many = "*";
constexpr std::string_view played = "# played ";

[[noreturn]] void play_many(Lab& lab) {
  const std::vector<std::string> names = std::exchange(lab.arguments, {});
  for (const Scenario& scenario : all_scenarios()) {
    if (std::find(names.begin(), names.end(), scenario.name) == names.end()) continue;
    alarm(lab.watchdog_s);
    const bool good = play(lab, scenario);
    // A fault, and a capture mode or a context that is left current, would change what comes next.
    const bool spoilt =
        scenario.place == Place::last || !good || !lab.as_found() || lab.cu.CtxSynchronize() != CUDA_SUCCESS;
    if (spoilt) _exit(good ? 0 : 1);
    std::printf("%.*s%s\n", static_cast<int>(played.size()), played.data(), scenario.name.c_str());
    std::fflush(stdout);
  }
  _exit(0);
}

// Plays the scenarios in as few processes as possible, one after another. Returns how many went wrong.
int play_apart(Lab& lab, std::vector<std::string> names, const Sink& sink) {
  int failures = 0;
  while (!names.empty()) {
    Child child(lab, many, names);
    std::vector<std::string> lines;
    const auto ended = [&](const std::string& how) {
      for (const std::string& line : lines)
        sink(line);
      lines.clear();
      sink(names.front() + ".process = " + how);
      names.erase(names.begin());
    };
    while (const auto line = child.read_line()) {
      if (line->starts_with(played))
        ended("exited 0");
      else
        lines.push_back(*line);
    }
    const std::string end = child.finish();
    if (names.empty()) break;
    ended(end); // the scenario that ended the process
    failures += end != "exited 0";
  }
  return failures;
}

void say_which_driver(const Lab& lab, const Sink& sink) {
  char device[128] = "";
  int version = 0;
  lab.cu.DeviceGetName(device, sizeof device, lab.device);
  lab.cu.DriverGetVersion(&version);
  sink("# device: " + std::string(device) + ", " + std::to_string(lab.device_count) + " of them");
  sink("# CUDA version of the driver: " + std::to_string(version) +
       ", of the headers: " + std::to_string(CUDA_VERSION));
}

} // namespace

int run_transcript(const Options& options, const Sink& sink) {
  // Streams that share a hardware queue would wait for each other's gates. 8 queues are the default. With 32,
  // a context of an H200 takes 0.5 to 0.9 s instead of 0.1 s, and the scenarios create hundreds.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  // A kernel that is loaded at its first launch may wait for every stream, including the held ones.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  start_watchdog(options.watchdog_s);
  const Api api = Api::load(options.driver);
  Lab lab(api, options.driver, [&sink](std::string_view line) {
    remember(line);
    sink(line);
  });
  lab.watchdog_s = options.watchdog_s;
  lab.initialize();
  say_which_driver(lab, sink);

  int failures = 0;
  std::vector<std::string> left_out;
  std::vector<std::vector<std::string>> apart(processes_at_once);
  std::size_t next = 0;
  for (const Scenario& scenario : all_scenarios()) {
    if (!selected(scenario, options)) continue;
    if (scenario.devices > lab.device_count) {
      left_out.push_back(scenario.name);
      continue;
    }
    alarm(options.watchdog_s);
    if (options.apart && options.alone.empty() && scenario.place != Place::bare) {
      apart[next++ % apart.size()].push_back(scenario.name);
      continue;
    }
    const bool here = scenario.place == Place::here && options.alone.empty();
    const bool good = here ? play(lab, scenario) : play_in_child(lab, scenario, sink);
    const bool restored = lab.as_found();
    if (!restored) lab.shows("left_the_driver_as_found", false);
    if (!good || !restored) ++failures;
    lab.restore();
  }
  alarm(0); // each of the other processes has its own
  std::mutex one_at_a_time;
  const Sink locked = [&](std::string_view line) {
    const std::lock_guard lock(one_at_a_time);
    sink(line);
  };
  std::vector<std::future<int>> running;
  for (const std::vector<std::string>& names : apart)
    running.push_back(std::async(std::launch::async, play_apart, std::ref(lab), names, locked));
  for (std::future<int>& one : running)
    failures += one.get();
  if (!left_out.empty()) {
    std::string names;
    for (const std::string& name : left_out)
      names += " " + name;
    sink("# left out, for want of a second device:" + names);
  }
  return failures;
}

std::vector<std::string> scenario_names(const Options& options) {
  std::vector<std::string> names;
  for (const Scenario& scenario : all_scenarios()) {
    if (selected(scenario, options)) names.push_back(scenario.name);
  }
  return names;
}

void child_main(int argc, char** argv) {
  if (argc < 5 || std::strcmp(argv[1], "--transcript-child") != 0) return;
  const auto watchdog_s = static_cast<unsigned>(std::atoi(argv[4]));
  start_watchdog(watchdog_s);
  const Api api = Api::load(argv[2]);
  Lab lab(api, argv[2], [](std::string_view line) {
    remember(line);
    std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    std::fflush(stdout);
  });
  lab.watchdog_s = watchdog_s;
  lab.arguments.assign(argv + 5, argv + argc);
  if (std::strcmp(argv[3], many) == 0) {
    try {
      lab.initialize();
    } catch (const SetUpFailure& failure) {
      std::fprintf(stderr, "transcript: %s\n", failure.what());
      _exit(1);
    }
    play_many(lab);
  }
  for (const Scenario& scenario : all_scenarios()) {
    if (scenario.name != argv[3]) continue;
    try {
      if (scenario.place != Place::bare) lab.initialize();
      _exit(play(lab, scenario) ? 0 : 1); // a scenario of its own covers what happens at exit
    } catch (const std::exception& failure) {
      lab.scenario = scenario.name;
      lab.shows("set_up", "failed: " + std::string(failure.what()));
      _exit(1);
    }
  }
  _exit(2);
}

} // namespace transcript
