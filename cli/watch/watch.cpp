// SPDX-License-Identifier: MIT
#include "watch/watch.hpp"

#include "exit_code.hpp"
#include "json_text.hpp"
#include "report/printable.hpp"
#include "report/readable_name.hpp"
#include "report/terminal.hpp"
#include "signals.hpp"
#include "standard_files.hpp"
#include "watch/annotations.hpp"
#include "watch/ask.hpp"
#include "watch/explain.hpp"
#include "watch/jitter.hpp"
#include "watch/json_file.hpp"
#include "watch/program.hpp"
#include "watch/quiet_report.hpp"
#include "watch/report_folder.hpp"
#include "watch/sarif.hpp"
#include "watch/seen.hpp"
#include "watch/session.hpp"
#include "watch/shared_folder.hpp"
#include "watch/watched_program.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cli {

namespace {

constexpr int watch_json_version = 1; // docs/watch.schema.json describes it

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Reads until the program has ended, or, without a program, until a signal says so. Returns the exit code.
int read_until_end(WatchSession& watched, pid_t child, std::chrono::nanoseconds hang) {
  using namespace std::chrono_literals;
  constexpr auto look_interval = 50ms;
  const auto report_interrupted = [&] {
    if (Requested::interrupted == 0) return;
    Requested::interrupted = 0;
    if (hang > 0s) watched.report(1s, false);
  };
  const auto read_the_rest = [&] { // what was recorded before the end, and some of what is recorded meanwhile
    constexpr int last_turns = 8;
    for (int turn = 0; turn < last_turns && watched.read(); ++turn) {
    }
    report_interrupted();
    watched.end_processes();
  };
  unsigned idle = 0;
  auto next_look = std::chrono::steady_clock::now() + look_interval;
  for (;;) {
    const bool found = watched.read();
    watched.find_unwatched();
    if (Requested::report != 0) {
      Requested::report = 0;
      watched.report(0s, true);
    }
    report_interrupted();
    if (Requested::end != 0) {
      if (child == 0) {
        read_the_rest();
        return 0;
      }
      kill(child, Requested::end);
      Requested::end = 0;
    }
    int status = 0;
    const pid_t ended = child == 0 ? 0 : waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR)
      throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
    if (ended == child && child != 0) {
      read_the_rest();
      return exit_code_of(status);
    }
    if (const auto now = std::chrono::steady_clock::now(); now >= next_look) {
      watched.end_processes();
      watched.check_place();
      if (hang > 0s) watched.find_hangs(hang);
      next_look = now + look_interval;
    }
    idle = found ? 0 : idle + 1;
    // Also after a read: while the command polls, each record takes the program longer.
    std::this_thread::sleep_for(found ? 2ms : idle < 20 ? 200us : idle < 200 ? 1ms : 5ms);
  }
}

nlohmann::ordered_json processes_json(const std::vector<watch::Unwatched>& processes) {
  auto json = nlohmann::ordered_json::array();
  for (const watch::Unwatched& process : processes)
    json.push_back({{"process", process.process}, {"reason", process.reason}});
  return json;
}

/// The files that the options name. The constructor throws CannotStart if one cannot be used.
struct NamedFiles {
  explicit NamedFiles(const WatchOptions& options) {
    try {
      for (const std::string& path : options.suppressions)
        suppressions.read(path);
      fill_closed_descriptors();
      json.emplace(options.json_file);
      suppressions_out.emplace(options.suppressions_out);
      const auto quiet = std::min<std::chrono::nanoseconds>(quiet_limit, std::chrono::seconds(options.hang));
      if (!options.reports.empty()) reports.emplace(options.reports, quiet);
    } catch (const std::runtime_error& error) {
      throw CannotStart(usage, error.what());
    }
  }

  watch::Suppressions suppressions;
  std::optional<JsonFile> json, suppressions_out;
  std::optional<ReportFolder> reports;
};

/// The findings in the format that the user wants.
std::string document_of(const nlohmann::ordered_json& found, const std::string& format) {
  if (format == "github") return annotations(found);
  return json_text(format == "sarif" ? sarif(found) : found) + "\n";
}

/// For `--suppressions`.
std::string suppressions_for(const nlohmann::ordered_json& found) {
  std::string text;
  std::set<std::string> known;
  for (const auto& finding : found["findings"])
    if (const std::string line = finding["suppression"]; known.insert(line).second)
      text += "# " + watch::in_one_line(finding["sentence"]) + '\n' + line + '\n';
  return text;
}

/// Whether somebody reads it there.
bool is_terminal() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool wants_colours(const std::string& color, bool at_terminal) {
  const char* const none = std::getenv("NO_COLOR"); // no-color.org
  return color == "always" || (color == "auto" && at_terminal && (none == nullptr || *none == '\0'));
}

/// Watches one program, or those that others start, to the end.
int watch_to_the_end(const WatchOptions& options) {
  // Whatever can be wrong with the options is found before the program starts.
  NamedFiles files(options);
  const WatchedProgram program(options);
  const bool is_attached = options.program.empty();
  handle_signals(is_attached ? Interrupt::command : Interrupt::program,
                 options.hang > 0 ? Reports::on_signal : Reports::none);
  std::optional<SharedFolder> folder;
  try {
    folder.emplace(options.attach);
  } catch (const std::runtime_error& error) {
    throw CannotStart(is_attached ? usage : not_started, error.what());
  }
  watch::CallText texts;
  const bool at_terminal = is_terminal();
  if (wants_colours(options.color, at_terminal)) watch::print_with_colours();
  std::optional<watch::Terminal> terminal;
  std::error_code no_folder;
  if (at_terminal) terminal.emplace(std::filesystem::current_path(no_folder));
  const bool has_document = !options.format.empty() && options.format != "text";
  const bool is_document_on_stderr = has_document && !files.json->is_wanted();
  watch::WatchReport report(
      files.suppressions, texts, options.vendor ? watch::OfVendor::reported : watch::OfVendor::counted,
      is_document_on_stderr ? watch::WatchReport::Print::nothing : watch::WatchReport::Print::text,
      terminal ? &*terminal : nullptr);
  HeldCalls held(options.jitter, texts);
  const std::chrono::seconds hang(options.hang);
  watch::HangReports hangs(texts, keep_in(files.reports));

  WatchSession watched(options, *folder, report, hangs, held);
  pid_t child = 0;
  if (is_attached) {
    watch::print_text("cuevent watch: start programs with\n  " + program.variables(folder->path()) +
                      "\nCtrl-C ends the watch.\n");
  } else {
    child = program.start(folder->path());
    watched.start(child);
  }
  const int code = read_until_end(watched, child, hang);
  watched.leave_processes();

  report.print_summary();
  if (const std::string sentence = held.sentence(); !sentence.empty())
    watch::print_text("cuevent watch: " + sentence + '\n');
  const std::string seen =
      seen_text(watched, report.findings(), hangs.have_hangs()) + vendor_text(report.vendor_findings());
  nlohmann::ordered_json json{{"version", watch_json_version},
                              {"program", options.program},
                              {"exit_code", code},
                              {"seen", seen},
                              {"processes", watched.processes()},
                              {"calls", watched.calls()},
                              {"unwatched", processes_json(watched.unwatched())},
                              {"partly_watched", processes_json(watched.partly_watched())},
                              {"vendor_findings", report.vendor_findings()},
                              {"findings", report.json()}};
  if (options.hang > 0) json["hangs"] = hangs.json();
  if (!options.jitter.empty()) json["jitter"] = held.json();
  if (is_document_on_stderr) watch::print_text(document_of(json, options.format));
  watch::print_text("cuevent watch: " + seen + '\n');
  bool is_written = true;
  if (files.json->is_wanted()) is_written = files.json->write_text(document_of(json, options.format));
  if (files.suppressions_out->is_wanted())
    is_written = files.suppressions_out->write_text(suppressions_for(json)) && is_written;
  if (options.fail && (report.findings() > 0 || hangs.have_hangs())) return failure;
  return code == success && !is_written ? not_written : code;
}

} // namespace

int watch(const WatchOptions& options) {
  try {
    if (!options.explain.empty()) return explain_rule(options.explain);
    if (!options.report.empty()) return report_in_quiet_mode(options.report, options.reports);
    if (!options.ask.empty()) return ask_for_reports(options.ask);
    if (!options.check.empty()) return check_with_jitter(options);
    return watch_to_the_end(options);
  } catch (const Stopped& stopped) {
    return 128 + stopped.signal;
  } catch (const CannotStart& error) {
    watch::print_text(std::string("cuevent: ") + error.what() + '\n');
    return error.code();
  }
}

} // namespace cli
