// SPDX-License-Identifier: MIT
#include "watch/jitter_runs.hpp"

#include "exit_code.hpp"
#include "output_file.hpp"
#include "program_arguments.hpp"
#include "report/printable.hpp"
#include "report/readable_name.hpp"
#include "signals.hpp"
#include "temporary_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cli {

using json = nlohmann::ordered_json;

namespace {

constexpr int tries_for_an_answer = 8; // of a run that answers a question
constexpr int silence_ms = 3000;       // of the standard input
constexpr int look_ms = 100;           // at signals meanwhile

/// A file without a name, in the folder for temporary files: however this command ends, nothing stays.
watch::OpenFile temporary_file() {
  std::string wrong;
  for (const std::string& folder : temporary_places()) {
    watch::OpenFile file(open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
    if (file.is_open()) return file;
    std::string path = folder + "/cuevent-jitter-XXXXXX"; // not every file system has files without names
    file = watch::OpenFile(mkostemp(path.data(), O_CLOEXEC));
    if (file.is_open()) {
      unlink(path.c_str());
      return file;
    }
    wrong += (wrong.empty() ? "" : "; ") + path + ": " + std::strerror(errno);
  }
  throw std::runtime_error(wrong);
}

/// Where other processes of this user can open the file.
std::string path_of(const watch::OpenFile& file) {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file.number());
}

std::string text_of(const watch::OpenFile& file) {
  std::ifstream stream(path_of(file), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Starts a program with files for its input and output.
pid_t start(const std::vector<std::string>& words, const std::string& input, const std::string& output,
            bool with_errors) {
  const std::vector<char*> arguments = arguments_of(words);
  const pid_t command = getpid();
  return start_process([&] {
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0); // if this command is killed
    if (getppid() != command) _exit(not_started);
    if (!input.empty()) dup2(open(input.c_str(), O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    dup2(open(output.c_str(), O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    if (!with_errors) dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    execv(words.front().c_str(), arguments.data());
    _exit(not_started);
  });
}

void throw_if_stopped() {
  if (const int number = ObeyedSignals::end(); number != 0) throw Stopped{number};
}

/// The exit code. A program that does not end in time is ended, and so is one that runs when this command
/// is to end.
int wait_for(pid_t child, std::chrono::steady_clock::duration limit) {
  using namespace std::chrono_literals;
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  for (; waitpid(child, &status, WNOHANG) == 0; std::this_thread::sleep_for(1ms)) {
    if (ObeyedSignals::end() == 0 && std::chrono::steady_clock::now() - begin <= limit) continue;
    end_process(child);
    throw_if_stopped();
    return 128 + SIGKILL;
  }
  throw_if_stopped();
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string text_of(const Outcome& outcome, std::size_t from) {
  const auto end = outcome.output.find('\n', from);
  return "exit code " + std::to_string(outcome.code) + ", the check exits with " +
         std::to_string(outcome.check_code) + " and prints: " +
         (from < outcome.output.size() ? outcome.output.substr(from, end - from) : "no more");
}

/// With the first line of what the checks print that differs.
void show_both(const char* what, const Outcome& outcome, const char* other_what, const Outcome& other) {
  const auto end =
      std::mismatch(outcome.output.begin(), outcome.output.end(), other.output.begin(), other.output.end());
  std::size_t from = static_cast<std::size_t>(end.first - outcome.output.begin());
  while (from > 0 && outcome.output[from - 1] != '\n')
    --from;
  watch::print_text(std::string("  ") + what + ": " + text_of(outcome, from) + "\n  " + other_what + ": " +
                    text_of(other, from) + '\n');
}

/// What a file or a pipe gives up to its end. Nothing for a terminal or a device. A pipe that stays open and
/// silent gives nothing either.
watch::OpenFile read_standard_input() {
  struct stat status {};
  if (fstat(STDIN_FILENO, &status) != 0 ||
      !(S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
    return {};
  watch::OpenFile copy = temporary_file();
  char bytes[1U << 16U];
  int silent = 0; // ms
  for (pollfd input{STDIN_FILENO, POLLIN, 0};;) {
    const int ready = poll(&input, 1, look_ms);
    throw_if_stopped();
    silent = ready > 0 ? 0 : silent + look_ms;
    if (ready <= 0 && silent < silence_ms) continue;
    if (ready <= 0) {
      say("nothing has come from the standard input for 3 s: each run gets what came before");
      return copy;
    }
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count <= 0) return copy;
    const std::string_view content(bytes, static_cast<std::size_t>(count));
    if (const int error = write_all(copy.number(), content); error != 0)
      throw std::runtime_error(std::string("the standard input: ") + std::strerror(error));
  }
}

} // namespace

bool came_during(const json& hold, const json& other) {
  const std::uint64_t from = hold["time_us"], time = other["time_us"];
  return time >= from && time - from < hold["microseconds"];
}

JitterRuns::JitterRuns(const WatchOptions& options) : options_(options), input_(read_standard_input()) {}

json Run::holds() const {
  if (!answer.is_object() || !answer.contains("jitter")) return json::array();
  return answer["jitter"]["holds"];
}

Run JitterRuns::run(const std::string& plan) {
  const bool is_first = count_++ == 0;
  const watch::OpenFile output = temporary_file(), findings = temporary_file(), checked = temporary_file();
  std::vector<std::string> words{"/proc/self/exe", "watch", "--json", path_of(findings)};
  // The first run tells whether the device can hold a stream, and names the places of calls in findings.
  if (is_first || !plan.empty()) words.insert(words.end(), {"--jitter", plan.empty() ? "=" : plan});
  if (is_first && !options_.order.empty()) words.push_back("--order=" + options_.order);
  words.emplace_back("--");
  words.insert(words.end(), options_.program.begin(), options_.program.end());
  Run run;
  const std::string input = input_.is_open() ? path_of(input_) : std::string();
  run.outcome.code = wait_for(start(words, input, path_of(output), is_first), limit_);
  run.outcome.check_code =
      wait_for(start({"/bin/sh", "-c", options_.check}, path_of(output), path_of(checked), true),
               std::chrono::minutes(5));
  run.outcome.output = text_of(checked);
  run.answer = json::parse(text_of(findings), nullptr, false);
  if (run.answer.is_object() && run.answer.contains("jitter") &&
      !run.answer["jitter"]["can_hold"].get<bool>())
    throw std::runtime_error("no stream can be held, because this device has no memory operations, or the "
                             "driver did not register memory for them");
  return run;
}

std::optional<Outcome> JitterRuns::differing_run() {
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const bool is_first = count_ == 0;
    Run now = run("");
    limit_ = std::max(limit_, 10 * (std::chrono::steady_clock::now() - begin));
    if (is_first) {
      usual_ = std::move(now.outcome);
      found_ = std::move(now.answer);
    } else if (!is_usual(now)) {
      return std::move(now.outcome);
    }
  }
  return std::nullopt;
}

void JitterRuns::run_without() {
  if (const std::optional<Outcome> other = differing_run()) {
    show("another one", *other, "one of them");
    throw std::runtime_error("the runs without jitter differ by now, so a change would say nothing");
  }
}

bool JitterRuns::changes(const Holds& holds, int tries) {
  while (tries-- > 0)
    if (!is_usual(run(plan_of(holds)))) return true;
  return false;
}

Holds JitterRuns::shorter(Holds holds) {
  Holds half = holds;
  for (watch::Hold& hold : half)
    hold.microseconds = std::min(hold.microseconds, watch::longest_hold_us / 2);
  for (int i = 0; i < repetitions; ++i) // if it changed now and then only, heals() could not tell
    if (is_usual(run(plan_of(half)))) return holds;
  return half;
}

JitterRuns::Answer JitterRuns::heals(const Holds& holds, watch::HoldPlace place) {
  Holds with_place = holds;
  with_place.push_back({place.stream, place.submission, watch::longest_hold_us});
  int usual = 0, changed = 0;
  for (int tries = 0; tries < tries_for_an_answer && usual < repetitions && changed < repetitions; ++tries) {
    const Run now = run(plan_of(with_place));
    const json held = now.holds();
    const json* const late = find_hold(held, place);
    const bool is_late = late != nullptr && (*late)["microseconds"] != 0 &&
                         std::ranges::any_of(holds, [&](const watch::Hold& hold) {
                           const json* const first = find_hold(held, {hold.stream, hold.submission});
                           return first != nullptr && came_during(*first, *late);
                         });
    if (is_late) ++(is_usual(now) ? usual : changed);
  }
  if (changed == 0 && usual >= repetitions) return Answer::yes;
  return usual == 0 && changed >= repetitions ? Answer::no : Answer::unknown;
}

void JitterRuns::show(const char* what, const Outcome& outcome, const char* usual) const {
  show_both(usual, usual_, what, outcome);
}

void JitterRuns::say_how_to_repeat(const std::string& plan) const {
  std::string command;
  for (const std::string& word : options_.program)
    command += ' ' + word;
  say("to see it again: cuevent watch --jitter " + plan + " --" + command);
}

void say(const std::string& text) { watch::print_text("cuevent watch: " + text + '\n'); }

std::string milliseconds(unsigned long microseconds) {
  char text[30];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(microseconds) / 1000);
  return text;
}

std::string plan_of(const Holds& holds) {
  std::string text = "=";
  for (const watch::Hold& hold : holds)
    text += (text.size() > 1 ? "," : "") + std::to_string(hold.stream) + '.' +
            std::to_string(hold.submission) + ':' + std::to_string(hold.microseconds);
  return text;
}

const json* find_hold(const json& holds, watch::HoldPlace place) {
  for (const json& hold : holds)
    if (hold["stream"] == place.stream && hold["submission"] == place.submission) return &hold;
  return nullptr;
}

void print_hold(const json& holds, watch::HoldPlace place, const std::string& what) {
  const json* const hold = find_hold(holds, place);
  if (hold == nullptr) return;
  const json& call = (*hold)["call"];
  const auto text_of_name = [](const json& name) { return watch::in_one_line(name.get<std::string>()); };
  std::string text = "  " + what + ": submission " + std::to_string(place.submission) + " of stream " +
                     std::to_string(place.stream) + "\n    " + call["function"].get<std::string>() +
                     ", thread " + std::to_string(call["thread"].get<unsigned>()) + " of process " +
                     std::to_string(call["process"].get<unsigned>()) + '\n';
  for (const json& frame : call.value("stack", json::array())) {
    const std::string function = text_of_name(frame["function"]), library = text_of_name(frame["library"]);
    text += "      " + (function.empty() ? library : function);
    if (frame.contains("file"))
      text += " (" + text_of_name(frame["file"]) + ':' + std::to_string(frame["line"].get<unsigned>()) + ')';
    text += '\n';
  }
  for (const json& frame : call.value("python", json::array()))
    text += "      " + text_of_name(frame) + '\n';
  watch::print_text(text);
}

} // namespace cli
