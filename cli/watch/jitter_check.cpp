// SPDX-License-Identifier: MIT
#include "exit_code.hpp"
#include "report/report.hpp"
#include "watch/jitter.hpp"
#include "watch/program.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace cli {

namespace {

using nlohmann::json;
using watch::Hold;
using Holds = std::vector<Hold>;

constexpr int repetitions = 3;
constexpr unsigned most_runs = 100; // of one search

/// What a run is compared by.
struct Outcome {
  int code = 0;       // of the program
  int check_code = 0; // of the check
  std::string output; // of the check
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Run {
  Outcome outcome;
  json held; // the field "jitter" of the findings
};

struct TemporaryFolder {
  TemporaryFolder() {
    const char* const folder = std::getenv("TMPDIR");
    path = std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) + "/cuevent-jitter-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error(path + ": " + std::strerror(errno));
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

/// Starts a program with files for its input and output.
pid_t start(const std::vector<std::string>& words, const std::string& input, const std::string& output,
            bool with_errors) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str())); // execv does not change them
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (child > 0) return child;
  if (!input.empty()) dup2(open(input.c_str(), O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDOUT_FILENO);
  if (!with_errors) dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
  execv(words.front().c_str(), arguments.data());
  _exit(not_started);
}

/// The exit code. A program that does not end in time is asked to end.
int wait_for(pid_t child, std::chrono::steady_clock::duration limit) {
  using namespace std::chrono_literals;
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  for (int asked = 0; waitpid(child, &status, WNOHANG) == 0; std::this_thread::sleep_for(1ms))
    if (std::chrono::steady_clock::now() - begin > limit + asked * 5s)
      kill(child, asked++ == 0 ? SIGTERM : SIGKILL); // the command passes the first one on
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string text_of(const Holds& holds) {
  std::string text = "=";
  for (const Hold& hold : holds)
    text += (text.size() > 1 ? "," : "") + std::to_string(hold.stream) + '.' +
            std::to_string(hold.submission) + ':' + std::to_string(hold.microseconds);
  return text;
}

std::string milliseconds(unsigned long microseconds) {
  char text[30];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(microseconds) / 1000);
  return text;
}

class Search {
public:
  explicit Search(const WatchOptions& options) : options_(options) {}

  int run() {
    watchable_program(options_.program.front()); // throws if it cannot be
    for (int i = 0; i < repetitions; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const Outcome outcome = run_with("").outcome;
      limit_ = std::max(limit_, 10 * (std::chrono::steady_clock::now() - begin));
      if (i == 0) usual_ = outcome;
      if (outcome == usual_) continue;
      say("the runs without jitter differ, so a change would say nothing. Let the check print only what is "
          "the same in every run");
      show("one of them", usual_, "another one", outcome);
      return failure;
    }
    say("3 runs without jitter have the same result");
    const auto [first, last] = seeds();
    for (std::uint64_t seed = first; seed <= last; ++seed)
      if (const auto holds = holds_that_change(seed)) {
        report(*holds);
        return failure;
      }
    say("no seed changes the result");
    return success;
  }

private:
  static void say(const std::string& text) { std::fprintf(stderr, "cuevent watch: %s\n", text.c_str()); }

  static std::string result_text(const Outcome& outcome, std::size_t from) {
    const auto end = outcome.output.find('\n', from);
    return "exit code " + std::to_string(outcome.code) + ", the check exits with " +
           std::to_string(outcome.check_code) + " and prints: " +
           (from < outcome.output.size() ? outcome.output.substr(from, end - from) : "no more");
  }

  /// With the first line of what the checks print that differs.
  static void show(const std::string& what, const Outcome& outcome, const std::string& other_what,
                   const Outcome& other) {
    const auto end =
        std::mismatch(outcome.output.begin(), outcome.output.end(), other.output.begin(), other.output.end());
    std::size_t from = static_cast<std::size_t>(end.first - outcome.output.begin());
    while (from > 0 && outcome.output[from - 1] != '\n')
      --from;
    watch::print_text("  " + what + ": " + result_text(outcome, from) + "\n  " + other_what + ": " +
                      result_text(other, from) + '\n');
  }

  std::pair<std::uint64_t, std::uint64_t> seeds() const {
    const auto dots = options_.jitter.find("..");
    const std::uint64_t first = std::stoull(options_.jitter);
    return {first, dots == std::string::npos ? first : std::stoull(options_.jitter.substr(dots + 2))};
  }

  Run run_with(const std::string& plan) {
    const std::string output = folder_.path + "/output", findings = folder_.path + "/findings",
                      checked = folder_.path + "/checked";
    std::vector<std::string> words{"/proc/self/exe", "watch", "--json", findings};
    if (!plan.empty()) words.insert(words.end(), {"--jitter", plan});
    words.emplace_back("--");
    words.insert(words.end(), options_.program.begin(), options_.program.end());
    ++runs_;
    Run run;
    run.outcome.code = wait_for(start(words, "", output, runs_ == 1), limit_);
    run.outcome.check_code =
        wait_for(start({"/bin/sh", "-c", options_.check}, output, checked, true), std::chrono::minutes(5));
    std::ifstream file(checked, std::ios::binary);
    run.outcome.output.assign(std::istreambuf_iterator<char>(file), {});
    std::ifstream json_file(findings);
    const json all = json::parse(json_file, nullptr, false);
    if (all.is_object() && all.contains("jitter")) run.held = all["jitter"];
    if (run.held.is_object() && !run.held["can_hold"].get<bool>())
      throw std::runtime_error("no stream can be held, because this device has no memory operations, or the "
                               "driver did not register memory for them");
    return run;
  }

  /// Whether a run has another result. It may need more than one, because a busy machine can delay the host
  /// for longer than a hold.
  bool changes(const Holds& holds, int tries = 2) {
    while (tries-- > 0)
      if (run_with(text_of(holds)).outcome != usual_) return true;
    return false;
  }

  /// The holds of this seed, if they change the result each time.
  std::optional<Holds> holds_that_change(std::uint64_t seed) {
    Holds holds;
    int changed = 0, runs = 0;
    for (; runs < repetitions && changed == runs; ++runs) {
      const Run run = run_with(std::to_string(seed));
      if (run.outcome != usual_) ++changed;
      if (runs > 0) continue;
      std::set<Hold> all; // several processes may have the same
      for (const json& hold : run.held.value("holds", json::array()))
        all.insert({hold["stream"], hold["submission"], hold["microseconds"]});
      holds.assign(all.begin(), all.end());
    }
    unsigned long total = 0;
    for (const Hold& hold : holds)
      total += hold.microseconds;
    const std::string what = "seed " + std::to_string(seed) + ", " + std::to_string(holds.size()) +
                             (holds.size() == 1 ? " hold, " : " holds, ") + milliseconds(total) + ": ";
    if (changed == 0)
      say(what + "the same result");
    else if (changed < repetitions)
      say(what + "another result in " + std::to_string(changed) + " of " + std::to_string(runs) +
          " runs, which does not count");
    else
      say(what + "another result in 3 of 3 runs");
    if (changed < repetitions) return std::nullopt;
    return holds;
  }

  /// Leaves out parts as long as the result is another one (delta debugging).
  Holds fewest(Holds holds) {
    const unsigned last_run = runs_ + most_runs;
    for (std::size_t parts = 2; holds.size() > 1 && runs_ < last_run;) {
      const std::size_t length = (holds.size() + parts - 1) / parts;
      bool smaller = false;
      for (const bool keep : {true, false}) // one part alone, or all but one
        for (std::size_t begin = 0; begin < holds.size() && !smaller && runs_ < last_run; begin += length) {
          const auto from = holds.begin() + static_cast<std::ptrdiff_t>(begin);
          const auto to = holds.begin() + static_cast<std::ptrdiff_t>(std::min(begin + length, holds.size()));
          Holds tried(from, to);
          if (!keep) {
            tried.assign(holds.begin(), from);
            tried.insert(tried.end(), to, holds.end());
          }
          if (tried.size() == holds.size() || tried.empty() || !changes(tried)) continue;
          holds = tried;
          parts = keep ? 2 : std::max<std::size_t>(parts - 1, 2);
          smaller = true;
        }
      if (smaller) continue;
      if (parts >= holds.size()) break;
      parts = std::min(holds.size(), 2 * parts);
    }
    return holds;
  }

  /// The submission that overtook a held one: if it is held for longer, the result is the usual one again. So
  /// it is if an earlier one of its stream is held, and not with a later one.
  std::optional<Hold> overtaking(const Holds& holds, const json& run) {
    std::map<std::uint32_t, std::set<std::uint32_t>> candidates;
    for (const json& other : run.value("holds", json::array()))
      if (other["microseconds"] == 0)
        candidates[other["stream"]].insert(other["submission"].get<std::uint32_t>());
    for (const Hold& hold : holds)
      candidates.erase(hold.stream);
    Holds short_holds = holds;
    for (Hold& hold : short_holds)
      hold.microseconds = std::min(hold.microseconds, watch::longest_hold_us / 2);
    if (!changes(short_holds, repetitions)) short_holds = holds;
    for (const auto& [stream, submissions] : candidates) {
      const std::vector<std::uint32_t> numbers(submissions.begin(), submissions.end());
      const auto heals = [&, on = stream](std::size_t index) {
        Holds with = short_holds;
        with.push_back({on, numbers[index], watch::longest_hold_us});
        return !changes(with, repetitions);
      };
      if (!heals(0)) continue;
      std::size_t low = 0, high = numbers.size(); // the last one that heals is in [low, high)
      while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        (heals(middle) ? low : high) = middle;
      }
      return Hold{stream, numbers[low], 0};
    }
    return std::nullopt;
  }

  static void print_call(const json& run, const Hold& wanted, const std::string& what) {
    for (const json& hold : run.value("holds", json::array())) {
      if (hold["stream"] != wanted.stream || hold["submission"] != wanted.submission) continue;
      const json& call = hold["call"];
      std::string text = "  " + what + ": submission " + std::to_string(wanted.submission) + " of stream " +
                         std::to_string(wanted.stream) + "\n    " + call["function"].get<std::string>() +
                         ", thread " + std::to_string(call["thread"].get<unsigned>()) + " of process " +
                         std::to_string(call["process"].get<unsigned>()) + '\n';
      for (const json& frame : call.value("stack", json::array())) {
        const std::string function = frame["function"], library = frame["library"];
        text += "      " + (function.empty() ? library : function);
        if (frame.contains("file"))
          text += " (" + frame["file"].get<std::string>() + ':' +
                  std::to_string(frame["line"].get<unsigned>()) + ')';
        text += '\n';
      }
      for (const json& frame : call.value("python", json::array()))
        text += "      " + frame.get<std::string>() + '\n';
      return watch::print_text(text);
    }
  }

  void report(const Holds& all) {
    const Holds holds = changes(all) ? fewest(all) : all;
    Run run; // that shows the change
    int changed = 0;
    for (int i = 0; i < repetitions; ++i) {
      Run now = run_with(text_of(holds));
      const bool is_other = now.outcome != usual_;
      if (is_other || i == 0) run = std::move(now);
      changed += is_other ? 1 : 0;
    }
    say("the fewest holds that change the result: " + std::to_string(holds.size()) + " of " +
        std::to_string(all.size()) + ", in " + std::to_string(changed) + " of 3 runs");
    for (const Hold& hold : holds)
      print_call(run.held, hold, "held for " + milliseconds(hold.microseconds));
    if (const auto other = overtaking(holds, run.held))
      print_call(run.held, *other,
                 "overtaken by, for the result is the usual one if this is held for longer");
    else
      say("no submission to another stream explains the change. Perhaps the host reads or writes memory too "
          "early");
    show("without jitter", usual_, "with these holds", run.outcome);
    std::string command;
    for (const std::string& word : options_.program)
      command += ' ' + word;
    say("to see it again: cuevent watch --jitter " + text_of(holds) + " --" + command);
  }

  const WatchOptions& options_;
  TemporaryFolder folder_;
  std::chrono::steady_clock::duration limit_ = std::chrono::minutes(1); // of one run
  unsigned runs_ = 0;
  Outcome usual_;
};

} // namespace

int check_with_jitter(const WatchOptions& options) { return Search(options).run(); }

} // namespace cli
