// SPDX-License-Identifier: MIT
#include "watch/ask.hpp"

#include "watch/report_folder.hpp"

#include "core/name_text.hpp"
#include "report/hang.hpp"
#include "report/printable.hpp"
#include "report/system_processes.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

namespace cli {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto limit = 10s; // a process that has not moved for that long is stuck

/// A process in quiet mode. This command reads its calls, as the command does that SIGUSR1 starts. So it can
/// see for a while whether anything moves, and needs no signal, which could end a process.
struct QuietProcess {
  QuietProcess(const std::string& path, watch::HangReports& reports)
      : file(path, watch::CallFile::Mode::again), hang(file, world, reports, [this] { read_file(); }) {}

  void read_file() {
    file.read([this](const watch::Call& call) { world.see(call); });
  }
  void read() {
    read_file();
    if (!has_lost_probes) hang.add_lost_probes();
    has_lost_probes = true;
    hang.update();
  }

  watch::CallFile file;
  watch::World world;
  watch::HangWatch hang;
  bool has_lost_probes = false;
};

/// The file in memory with the calls of the process, or nothing. A child may have inherited its parent's.
std::unique_ptr<QuietProcess> quiet_process(unsigned process, watch::HangReports& reports) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
    if (!fs::read_symlink(entry.path(), error).string().starts_with("/memfd:cuevent-watch")) continue;
    try {
      auto found = std::make_unique<QuietProcess>(entry.path(), reports);
      if (found->file.process() == process) return found;
    } catch (const std::runtime_error& unreadable) {
      watch::print_text("cuevent watch: process " + std::to_string(process) + ": " + unreadable.what() +
                        '\n');
    }
  }
  return nullptr;
}

/// Whether the process is in quiet mode and reports to this folder.
bool reports_to(unsigned process, const std::string& folder) {
  const std::string named = variable_of(process, reports_variable);
  if (named.empty() || variable_of(process, "CUEVENT_WATCH") != "quiet") return false;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/" + std::to_string(process) + "/cwd", error);
  return fs::equivalent(here / named, folder, error);
}

std::string line_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool handles_sigusr1(const std::string& process) {
  std::ifstream file(process + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SigCgt:"))
      return (std::strtoull(line.c_str() + 7, nullptr, 16) >> (SIGUSR1 - 1) & 1) != 0;
  return false;
}

/// Whether it is a `cuevent watch --reports` for this folder.
bool is_watch_of(const std::string& process, const std::string& folder) {
  if (line_in(process + "/comm") != "cuevent" || !handles_sigusr1(process)) return false;
  std::error_code error;
  const fs::path here = fs::read_symlink(process + "/cwd", error);
  std::ifstream file(process + "/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) {
    if (word == "--reports")
      std::getline(file, word, '\0');
    else if (word.starts_with("--reports="))
      word.erase(0, std::strlen("--reports="));
    else
      continue;
    return fs::equivalent(here / word, folder, error);
  }
  return false;
}

} // namespace

int ask_for_reports(const std::string& path) {
  const ReportFolder folder(path, limit);
  watch::CallText texts;
  watch::HangReports reports(texts, &folder);
  std::vector<std::unique_ptr<QuietProcess>> quiet;
  unsigned watches = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto process = static_cast<unsigned>(std::atoi(entry.path().filename().c_str()));
    if (process == 0 || process == static_cast<unsigned>(getpid())) continue;
    // What a process of another user says could be made up: its memory, its name and its command line. Its
    // paths may lead to a file system that never answers.
    if (!watch::is_of_this_user(static_cast<pid_t>(process)).value_or(false)) {
      if (variable_of(process, "CUEVENT_WATCH") == "quiet" &&
          fs::path(variable_of(process, reports_variable)).lexically_normal() == folder.path())
        watch::print_text("cuevent watch: process " + std::to_string(process) +
                          " runs as another user: ask it as that user\n");
      continue;
    }
    if (is_watch_of(entry.path(), folder.path())) {
      watches += kill(static_cast<pid_t>(process), SIGUSR1) == 0 ? 1 : 0;
      continue;
    }
    if (!reports_to(process, folder.path())) continue;
    if (auto found = quiet_process(process, reports)) quiet.push_back(std::move(found));
  }
  // Until every process has submitted work, or has not moved for long enough.
  const std::size_t found = quiet.size();
  const auto begin = std::chrono::steady_clock::now();
  for (bool wait = true; wait && std::chrono::steady_clock::now() - begin < 2 * limit;) {
    std::this_thread::sleep_for(50ms);
    wait = false;
    std::erase_if(quiet, [](const auto& each) { return each->file.has_ended(); });
    for (const auto& each : quiet) {
      each->read();
      wait = wait || (!each->hang.has_submitted() && each->hang.still_for() < limit);
    }
  }
  for (const auto& each : quiet)
    each->hang.request_look();
  for (const auto& each : quiet)
    each->hang.keep();
  std::printf("cuevent watch: asked %u commands; wrote reports of %zu processes in quiet mode to %s\n",
              watches, quiet.size(), cuevent::printable(folder.path()).c_str());
  if (quiet.size() < found)
    std::printf("cuevent watch: processes that ended meanwhile, and have no new reports: %zu\n",
                found - quiet.size());
  if (watches == 0 && found == 0)
    throw std::runtime_error(
        "no process of this host reports to " + folder.path() +
        ": start programs with `cuevent watch --hang SECONDS --reports FOLDER`, or in quiet "
        "mode with " +
        reports_variable);
  return 0;
}

} // namespace cli
