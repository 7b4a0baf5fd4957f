// SPDX-License-Identifier: MIT
#include "watch/watch.hpp"

#include "exit_code.hpp"
#include "json_text.hpp"
#include "report/printable.hpp"
#include "report/readable_name.hpp"
#include "report/terminal.hpp"
#include "signals.hpp"
#include "stand_in.hpp"
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
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace cli {

namespace {

constexpr int watch_json_version = 1; // docs/watch.schema.json describes it

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Without a program, a signal ends the watch.
class Attached : public ObeyedSignals {
public:
  using ObeyedSignals::ObeyedSignals;
  static std::optional<int> follow() { return end() == 0 ? std::nullopt : std::optional(status_of(success)); }
};

/// Reads until the program has ended, or the watch. Returns the status of the program.
template <class Source>
int read_until_end(WatchSession& watched, Source& source, std::chrono::nanoseconds hang) {
  using namespace std::chrono_literals;
  using Clock = std::chrono::steady_clock;
  constexpr auto look_interval = 50ms;
  auto next_interruption = Clock::now(); // a program is often asked to end twice: alone, and with its group
  const auto report = [&](const Requests& requests) {
    if (requests.report) watched.report(0s, true);
    if (!requests.interrupted || hang == 0s || Clock::now() < next_interruption) return;
    watched.report(1s, false);
    next_interruption = Clock::now() + 1s;
  };
  unsigned idle = 0;
  auto next_look = Clock::now() + look_interval;
  for (std::chrono::nanoseconds pause = 0s;;) {
    const Requests requests = source.wait(pause);
    const bool found = watched.read();
    watched.find_unwatched();
    report(requests);
    if (const std::optional<int> status = source.follow()) {
      // What was recorded before the end, and some of what is recorded meanwhile.
      constexpr int last_turns = 8;
      for (int turn = 0; turn < last_turns && watched.read(); ++turn) {
      }
      report(source.wait(0s));
      watched.end_processes();
      return *status;
    }
    if (const auto now = Clock::now(); now >= next_look) {
      watched.end_processes();
      watched.check_place();
      if (hang > 0s) watched.find_hangs(hang);
      next_look = now + look_interval;
    }
    idle = found ? 0 : idle + 1;
    // Also after a read: while the command polls, each record takes the program longer.
    pause = found ? 2ms : idle < 20 ? 200us : idle < 200 ? 1ms : 5ms;
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

/// Watches one program, or the programs that others start, to the end. Returns a status with which a program
/// could end.
int watch_to_the_end(const WatchOptions& options) {
  // Whatever can be wrong with the options is found before the program starts.
  NamedFiles files(options);
  const WatchedProgram program(options);
  const bool is_attached = options.program.empty();
  const Reports on_signal = options.hang > 0 ? Reports::on_signal : Reports::none;
  std::optional<Attached> attached;
  std::optional<StandIn> stand_in;
  if (is_attached)
    attached.emplace(on_signal);
  else
    stand_in.emplace(on_signal);
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
  watch::HangReports hangs(texts, files.reports ? &*files.reports : nullptr);

  WatchSession watched(options, *folder, report, hangs, held);
  int status = 0;
  if (is_attached) {
    watch::print_text("cuevent watch: start programs with\n  " + program.variables(folder->path()) +
                      "\nCtrl-C ends the watch.\n");
    status = read_until_end(watched, *attached, hang);
  } else {
    watched.start(program.start(*stand_in, folder->path()));
    status = read_until_end(watched, *stand_in, hang);
  }
  watched.leave_processes();

  report.print_summary();
  if (const std::string sentence = held.sentence(); !sentence.empty())
    watch::print_text("cuevent watch: " + sentence + '\n');
  const std::string seen =
      seen_text(watched, report.findings(), hangs.have_hangs()) + vendor_text(report.vendor_findings());
  nlohmann::ordered_json json{{"version", watch_json_version},
                              {"program", options.program},
                              {"exit_code", exit_code_of(status)},
                              {"seen", seen},
                              {"processes", watched.processes()},
                              {"calls", watched.calls()},
                              {"unwatched", processes_json(watched.unwatched())},
                              {"partly_watched", processes_json(watched.partly_watched())},
                              {"vendor_findings", report.vendor_findings()},
                              {"findings", report.json()}};
  if (options.hang > 0) json["hangs"] = hangs.json();
  if (!options.jitter.empty()) json["jitter"] = held.json();
  if (!options.jitter.empty() && options.reports_possible_order())
    json["candidates"] = report.candidates_json();
  if (is_document_on_stderr) watch::print_text(document_of(json, options.format));
  watch::print_text("cuevent watch: " + seen + '\n');
  bool is_written = true;
  if (files.json->is_wanted()) is_written = files.json->write_text(document_of(json, options.format));
  if (files.suppressions_out->is_wanted())
    is_written = files.suppressions_out->write_text(suppressions_for(json)) && is_written;
  if (options.fail && (report.findings() > 0 || hangs.have_hangs())) return status_of(failure);
  return status == status_of(success) && !is_written ? status_of(not_written) : status;
}

} // namespace

int watch(const WatchOptions& options) {
  try {
    if (!options.explain.empty()) return explain_rule(options.explain);
    if (!options.report.empty()) return report_in_quiet_mode(options.report, options.reports);
    if (!options.ask.empty()) return ask_for_reports(options.ask);
    if (!options.check.empty()) return check_with_jitter(options);
    return end_like(watch_to_the_end(options));
  } catch (const Stopped& stopped) {
    return 128 + stopped.signal;
  } catch (const CannotStart& error) {
    watch::print_text(std::string("cuevent: ") + error.what() + '\n');
    return error.code();
  }
}

} // namespace cli
