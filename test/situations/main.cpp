// SPDX-License-Identifier: MIT
// Runs the matrix of situations on a simulated driver (--driver sim, named by CUEVENT_DRIVER) or on a real
// one (--driver real, the default):
//   situations --driver sim --jobs 2 --page docs/situations.md   all cells; the page must be up to date
//   situations --driver sim --only "TimelineFence/fork"          the cells whose CLASS/SITUATION contains it
//   situations --part 2/3                                        the second third of the processes
//   situations --print-page                                      the page
//   situations --cells SITUATION CLASS...                        some cells, in this process
// Without a real driver, prints what is missing and exits with 77, which means skipped.
#include "situations.hpp"

#include "../processes/children/scenario.hpp"
#include "../processes/run.hpp"

#include <gpu.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace process {

namespace {
std::atomic<const char*> last_step{"the beginning"};
char cell[256] = "";
std::atomic<bool> in_vain{false};

void say_where(int signal) {
  const char* const how = signal == SIGALRM ? ": never returned from: " : ": crashed in: ";
  for (const char* text : {static_cast<const char*>(cell), how, last_step.load(), "\n"})
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  _exit(1);
}
} // namespace

void step(const char* what) { last_step = what; }

void expect(bool holds, const std::string& what) {
  if (holds) return;
  in_vain = true;
  std::fprintf(stderr, "%s: expected in vain: %s\n", cell, what.c_str());
}

bool disappointed() { return in_vain; }

} // namespace process

namespace situations { namespace {

using process::cell;
using process::say_where;

/// In seconds. On a device, most of the time goes into contexts; elsewhere, the machine may be busy.
constexpr unsigned longest_cell = 60;

/// What a simulated device does, and freed memory is overwritten, so that a use of it crashes.
const std::vector<std::string> environment = {
    "CUEVENT_SIM_DEVICES=2", "CUEVENT_SIM_FAULTY_KERNEL=write_illegal_address", "MALLOC_PERTURB_=165"};

void run_cell(const Class& row, const Situation& column) {
  std::snprintf(cell, sizeof cell, "%s/%s", row.name, column.name);
  alarm(longest_cell);
  try {
    column.run(row);
    if (const auto more = row.more.find(column.name); more != row.more.end()) more->second();
  } catch (const std::exception& error) {
    process::expect(false, std::string("no exception: ") + error.what());
  }
}

/// Runs cells of one column in this process.
int run_cells(const std::string& column_name, const std::vector<std::string>& row_names) {
  for (const int signal : {SIGALRM, SIGSEGV, SIGABRT, SIGBUS})
    std::signal(signal, say_where);
  for (const Situation& column : all_situations())
    for (const Class& row : all_classes())
      if (column_name == column.name &&
          std::find(row_names.begin(), row_names.end(), row.name) != row_names.end())
        run_cell(row, column);
  return process::disappointed();
}

/// A process.
struct Job {
  std::vector<std::string> words;
  Alone alone;
  const char* setting;
  test::Ended ended{};

  bool red() const { return ended.how != "exited with 0" || !ended.output.empty(); }
};

/// "2/3": the second of three parts of the processes.
struct Part {
  std::size_t number = 1, count = 1;
};

Part part_of(const std::string& text) {
  const std::size_t slash = text.find('/');
  Part part{std::strtoul(text.c_str(), nullptr, 10),
            slash == std::string::npos ? 0 : std::strtoul(text.c_str() + slash + 1, nullptr, 10)};
  if (part.number >= 1 && part.number <= part.count) return part;
  std::fprintf(stderr, "%s is no part: write 2/3 for the second of three\n", text.c_str());
  std::exit(2);
}

/// Runs the cells whose CLASS/SITUATION contains `only`. Returns whether all are green.
bool run_matrix(const std::string& program, const std::string& only, Part part, unsigned at_a_time,
                int devices) {
  std::vector<Job> jobs;
  std::size_t cells = 0;
  int untested = 0;
  for (const Situation& column : all_situations()) {
    std::vector<std::string> rows;
    for (const Class& row : all_classes()) {
      if ((std::string(row.name) + "/" + column.name).find(only) == std::string::npos) continue;
      if (not_tested(row, column) != nullptr || column.devices > devices)
        ++untested;
      else
        rows.emplace_back(row.name);
    }
    const std::vector<std::string> begin{program, "--cells", column.name};
    if (column.alone == Alone::no && !rows.empty()) {
      jobs.push_back({begin, column.alone, column.setting});
      jobs.back().words.insert(jobs.back().words.end(), rows.begin(), rows.end());
    } else {
      for (const std::string& row : rows) {
        jobs.push_back({begin, column.alone, column.setting});
        jobs.back().words.push_back(row);
      }
    }
  }

  std::vector<Job> chosen;
  for (std::size_t k = part.number - 1; k < jobs.size(); k += part.count)
    chosen.push_back(std::move(jobs[k]));
  jobs = std::move(chosen);
  for (const Job& job : jobs)
    cells += job.words.size() - 3; // after the program, the option and the situation

  std::atomic<std::size_t> next{0}; // the situations are in order: faults of the device come last
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < at_a_time; ++i)
    threads.emplace_back([&] {
      for (std::size_t k = next++; k < jobs.size(); k = next++) {
        std::vector<std::string> variables = environment;
        if (jobs[k].setting != nullptr) variables.emplace_back(jobs[k].setting);
        jobs[k].ended = test::run(jobs[k].words, variables, std::chrono::seconds(10 * longest_cell));
      }
    });
  for (std::thread& thread : threads)
    thread.join();

  bool green = true;
  for (const Job& job : jobs) {
    if (!job.red()) continue;
    green = false;
    std::printf("%s/%s: %s\n%s", job.words[3].c_str(), job.words[2].c_str(), job.ended.how.c_str(),
                job.ended.output.c_str());
  }
  std::printf("%zu cells in %zu processes, %d not tested: %s\n", cells, jobs.size(), untested,
              cells == 0 ? "nothing was tested"
              : green    ? "all as documented"
                         : "some not as documented");
  return green && cells > 0;
}

/// Prints the number of devices and returns 0, or prints what is missing.
int ask(const std::string& driver) {
  try {
    const gpu::Gpu gpu;
    const bool simulated = gpu.simulated();
    if (simulated == (driver == "sim")) {
      std::printf("%d", gpu.count());
      return 0;
    }
    std::fprintf(stderr, "skipped: the driver of this machine is %sthe simulated one\n",
                 simulated ? "" : "not ");
  } catch (const cuevent::DriverUnavailable& error) {
    std::fprintf(stderr, "skipped: %s\n", error.what());
  }
  return driver == "sim" ? 1 : 77;
}

bool is_up_to_date(const std::string& program, const std::string& file) {
  const test::Ended printed = test::run({program, "--print-page"}, environment);
  std::ifstream stream(file);
  std::ostringstream read;
  read << stream.rdbuf();
  if (read.str() == printed.output) return true;
  std::printf("%s is not up to date: write it with %s --print-page\n", file.c_str(), program.c_str());
  return false;
}

}} // namespace situations

int main(int argc, char** argv) {
  using namespace situations;
  const std::string program = argv[0];
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::string driver = "real", only, page_file;
  unsigned jobs = 1;
  Part part;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] { return ++i < words.size() ? words[i] : std::string(); };
    if (words[i] == "--driver") {
      driver = value();
    } else if (words[i] == "--only") {
      only = value();
    } else if (words[i] == "--part") {
      part = part_of(value());
    } else if (words[i] == "--page") {
      page_file = value();
    } else if (words[i] == "--jobs") {
      jobs = static_cast<unsigned>(std::max(1, std::atoi(value().c_str())));
    } else if (words[i] == "--cells") {
      const std::string column = value();
      return run_cells(column, {words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()});
    } else if (words[i] == "--ask") {
      return ask(driver);
    } else if (words[i] == "--print-page") {
      std::fputs(page().c_str(), stdout);
      return 0;
    } else {
      std::fprintf(stderr, "unknown option %s: see the top of test/situations/main.cpp\n", words[i].c_str());
      return 2;
    }
  }
  // A separate process asks for the driver, so that this process never loads one.
  const test::Ended asked = test::run({program, "--driver", driver, "--ask"}, environment);
  if (asked.how != "exited with 0") {
    std::fputs(asked.output.c_str(), stderr);
    return asked.how == "exited with 77" ? 77 : 1;
  }
  int devices = 0;
  const char* const end = asked.output.data() + asked.output.size();
  if (const auto read = std::from_chars(asked.output.data(), end, devices);
      read.ec != std::errc() || read.ptr != end || devices < 1) {
    std::fprintf(stderr, "the number of devices is not known: %s\n", asked.output.c_str());
    return 1;
  }
  const bool green = run_matrix(program, only, part, jobs, devices);
  return green && (page_file.empty() || is_up_to_date(program, page_file)) ? 0 : 1;
}
