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
#include <optional>
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
                           ipc_memory_scenarios,
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
                           ended_host_memory_scenarios,
                           ended_nodes_scenarios,
                           memory_operation_scenarios,
                           registered_memory_scenarios,
                           free_scenarios,
                           memory_queries_scenarios,
                           memory_pools_scenarios,
                           managed_memory_scenarios,
                           virtual_memory_scenarios,
                           arrays_scenarios,
                           checkpoints_scenarios,
                           core_dumps_scenarios,
                           copies_scenarios,
                           copying_scenarios,
                           early_copies_scenarios,
                           libraries_scenarios,
                           linker_scenarios,
                           graph_nodes_scenarios,
                           graph_memory_scenarios,
                           conditional_scenarios,
                           stream_calls_scenarios,
                           attach_scenarios,
                           old_launch_scenarios,
                           profiler_scenarios,
                           driver_log_scenarios,
                           host_calls_scenarios,
                           isolated_scenarios}) {
    for (Scenario& scenario : noun())
      all.push_back(std::move(scenario));
  }
  return all;
}

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

// A driver creates contexts one after another, and the time of a context grows with its hardware queues. On
// an H200 it takes 280 ms to create and destroy one with 8 queues, the default, and 86 ms with one. Streams
// that share a queue wait for each other's gates, but 2 queues give the recorded answers of all scenarios
// with one device. Scenarios with two devices were not asked with fewer than 8.
constexpr const char* usual_queues = "8";
constexpr const char* few_queues = "2";
// Most of the time they wait.
constexpr int processes_with_few_queues = 6;

void set_queues(const char* count) { setenv("CUDA_DEVICE_MAX_CONNECTIONS", count, 1); }

// One process plays many scenarios. Its scenario is `many`, and its argument is the number of queues. It
// reads the name of the next scenario, and prints `played` and the name after it.
constexpr const char* many = "*";
constexpr std::string_view played = "# played ";

[[noreturn]] void play_many(Lab& lab) {
  const std::vector<Scenario> all = all_scenarios();
  for (std::string name = heard(); !name.empty(); name = heard()) {
    const auto scenario =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
    if (scenario == all.end()) _exit(2);
    alarm(lab.watchdog_s);
    const bool good = play(lab, *scenario);
    // A fault, and a capture mode or a context that is left current, would change what comes next.
    const bool spoilt =
        scenario->place == Place::last || !good || !lab.as_found() || lab.cu.CtxSynchronize() != CUDA_SUCCESS;
    if (spoilt) _exit(good ? 0 : 1);
    alarm(0); // while it waits for the next name
    lab.restore();
    std::printf("%.*s%s\n", static_cast<int>(played.size()), played.data(), name.c_str());
    std::fflush(stdout);
  }
  _exit(0);
}

// Scenarios that several threads take, the longest first.
class Waiting {
public:
  void add(const Scenario& scenario) { scenarios_.push_back(scenario); }

  void sort() {
    std::stable_sort(scenarios_.begin(), scenarios_.end(),
                     [](const Scenario& one, const Scenario& other) { return one.seconds > other.seconds; });
  }

  std::optional<Scenario> take() {
    const std::lock_guard lock(mutex_);
    if (next_ == scenarios_.size()) return std::nullopt;
    return scenarios_[next_++];
  }

private:
  std::mutex mutex_;
  std::vector<Scenario> scenarios_;
  std::size_t next_ = 0;
};

// Passes on what one scenario has printed. A crash may be an answer, so what its process said about it is a
// comment. Other processes wait until all of it is passed on.
class Answering {
public:
  explicit Answering(const Sink& sink) : sink_(sink) {}

  void end(const Scenario& scenario, std::vector<std::string>& lines, const std::string& how) {
    const std::lock_guard lock(mutex_);
    for (const std::string& line : lines) {
      const bool is_answer = line.starts_with(scenario.name + ".") && line.find(" = ") != std::string::npos;
      sink_(is_answer ? line : std::string(said) + scenario.name + ": " + line);
    }
    lines.clear();
    sink_(scenario.name + ".process = " + how);
  }

private:
  std::mutex mutex_;
  const Sink& sink_;
};

std::string play_alone(const Lab& lab, const Scenario& scenario, std::vector<std::string>& lines) {
  Child child(lab, scenario.name, {}, Errors::to_its_output);
  while (auto line = child.read_line())
    lines.push_back(std::move(*line));
  return child.finish();
}

// Returns how the process has ended, or nothing if it can play another one.
std::optional<std::string> play_in(Child& child, const Scenario& scenario, std::vector<std::string>& lines) {
  child.tell(scenario.name); // if it has ended, there is nothing to read
  while (auto line = child.read_line()) {
    if (line->starts_with(played)) return std::nullopt;
    lines.push_back(std::move(*line));
  }
  return child.finish();
}

// Plays scenarios in as few processes as possible, one after another. Returns how many went wrong.
int play_apart(const Lab& lab, const char* queues, Waiting& waiting, Answering& answering) {
  int failures = 0;
  std::optional<Child> shared;
  while (const auto scenario = waiting.take()) {
    std::vector<std::string> lines;
    std::string end = "exited 0";
    if (scenario->place == Place::alone || scenario->place == Place::bare ||
        scenario->place == Place::probe) {
      end = play_alone(lab, *scenario, lines);
    } else {
      if (!shared) shared.emplace(lab, many, std::vector<std::string>{queues}, Errors::to_its_output);
      if (const auto ended = play_in(*shared, *scenario, lines)) {
        end = *ended;
        shared.reset();
      }
    }
    answering.end(*scenario, lines, end);
    failures += end != "exited 0";
  }
  if (shared) shared->finish();
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
  set_queues(usual_queues);
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
  Waiting with_few_queues, with_usual_queues;
  for (Scenario& scenario : all_scenarios()) {
    if (!selected(scenario, options)) continue;
    if (scenario.devices > lab.device_count) {
      left_out.push_back(scenario.name);
      continue;
    }
    if (options.apart) {
      if (!options.alone.empty()) scenario.place = Place::alone;
      (scenario.devices == 1 ? with_few_queues : with_usual_queues).add(scenario);
      continue;
    }
    alarm(options.watchdog_s);
    const bool here = scenario.place == Place::here;
    const bool good = here ? play(lab, scenario) : play_in_child(lab, scenario, sink);
    const bool restored = lab.as_found();
    if (!restored) lab.shows("left_the_driver_as_found", false);
    if (!good || !restored) ++failures;
    lab.restore();
  }
  alarm(0); // each of the other processes has its own
  with_few_queues.sort();
  with_usual_queues.sort();
  Answering answering(sink);
  std::vector<std::future<int>> running;
  const auto start = [&](const char* queues, Waiting& waiting) {
    running.push_back(std::async(std::launch::async, play_apart, std::cref(lab), queues, std::ref(waiting),
                                 std::ref(answering)));
  };
  for (int i = 0; options.apart && i < processes_with_few_queues; ++i)
    start(few_queues, with_few_queues);
  if (options.apart) start(usual_queues, with_usual_queues);
  for (std::future<int>& one : running)
    failures += one.get();
  if (!left_out.empty()) {
    std::string names;
    for (const std::string& name : left_out)
      names += " " + name;
    sink("# left out, for want of another device:" + names);
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
  if (std::strcmp(argv[3], many) == 0 && argc > 5) set_queues(argv[5]);
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
