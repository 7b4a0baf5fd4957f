// SPDX-License-Identifier: MIT
#include "report/system_processes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace watch {

namespace {

using namespace std::chrono_literals;

constexpr auto shortest_pause = 5ms, longest_pause = 5'000ms;
constexpr auto longest_pause_of_others = 250ms; // for processes without the auditor
constexpr auto pause_of_looks = 5ms;
constexpr int share = 25; // looking takes at most one part in 25 of a processor

/// The time that this thread has spent on a processor. On a busy machine, much more time goes by while it
/// waits for one, and a pause in proportion to that would let processes pass unseen.
std::chrono::nanoseconds time_of_this_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::string file_of(pid_t process, const char* name) {
  return "/proc/" + std::to_string(process) + '/' + name;
}

std::string link_of(pid_t process, const char* name) {
  std::error_code error;
  return std::filesystem::read_symlink(file_of(process, name), error);
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error))
    if (const int number = std::atoi(entry.path().filename().c_str()); number > 0)
      processes.push_back(number);
  std::sort(processes.begin(), processes.end()); // parents mostly before their children
  return processes;
}

/// The words of this line of /proc/PID/status: "NSpid: 4711 3".
std::vector<std::string> status_of(pid_t process, const std::string& line_name) {
  std::ifstream file(file_of(process, "status"));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(line_name + ':')) {
      std::istringstream words(line.substr(line_name.size() + 1));
      return {std::istream_iterator<std::string>(words), {}};
    }
  return {};
}

bool is_another_user(pid_t process) {
  const auto users = status_of(process, "Uid"); // real, effective and others
  return users.size() > 1 && users[1] != std::to_string(geteuid());
}

/// Its number in that namespace.
std::string own_number_of(pid_t process) {
  const auto numbers = status_of(process, "NSpid");
  return numbers.empty() ? std::string() : numbers.back();
}

struct Mapped {
  bool is_readable = false, driver = false, auditor = false;
};

Mapped mapped_in(pid_t process) {
  Mapped mapped;
  std::ifstream file(file_of(process, "maps"));
  mapped.is_readable = file.is_open();
  for (std::string line; std::getline(file, line);) {
    mapped.driver = mapped.driver || line.find("/libcuda.so") != std::string::npos;
    mapped.auditor = mapped.auditor || line.find("/libcuevent-watch.so") != std::string::npos;
  }
  return mapped;
}

/// Why the calls of a process are not recorded. `is_copy`: it was forked from a watched process. Empty if
/// it is not known to use the driver, or if it is just ending and tells nothing.
std::string reason_for(pid_t process, const Mapped& mapped, bool is_copy) {
  if (!mapped.is_readable)
    return is_another_user(process) ? "it runs as another user, so it may use the driver unseen" : "";
  if (!mapped.driver || (mapped.auditor && is_copy)) return ""; // a copy makes its file at its first call
  const std::string root = link_of(process, "root");
  if (root.empty()) return "";
  if (root != link_of(getpid(), "root")) return "its root folder is another one";
  if (is_another_user(process)) return "it runs as another user";
  if (!mapped.auditor) return "its environment was cleaned, so the loader did not load the auditing library";
  const auto filter = status_of(process, "Seccomp");
  if (!filter.empty() && filter.front() != "0") return "it may not make the system calls that this needs";
  return "it could not make a file for its calls";
}

} // namespace

std::optional<bool> is_of_this_user(pid_t process) {
  const auto users = status_of(process, "Uid"); // real, effective, saved and of the file system
  if (users.empty()) return std::nullopt;
  return std::all_of(users.begin(), users.end(),
                     [](const std::string& user) { return user == std::to_string(geteuid()); });
}

std::uint64_t name_space_of(pid_t process) {
  struct stat status {};
  return stat(file_of(process, "ns/pid").c_str(), &status) == 0 ? status.st_ino : 0;
}

std::optional<SystemState> state_of(pid_t process) {
  std::ifstream file(file_of(process, "stat"));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const auto name_end = text.rfind(')'); // the name may have any characters
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  SystemState state;
  words >> state.state >> state.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field)
    words >> skipped;
  words >> state.begun >> state.size;
  return state;
}

pid_t number_here(unsigned number, std::uint64_t name_space) {
  for (const pid_t process : all_processes())
    if (name_space_of(process) == name_space && own_number_of(process) == std::to_string(number))
      return process;
  return 0;
}

void UnwatchedProcesses::inspect(pid_t process, const SystemState& state,
                                 const std::function<bool(pid_t)>& is_watched) {
  const auto now = Clock::now();
  const auto [known, is_new] = seen_.try_emplace(process);
  Seen& seen = known->second;
  if (is_new || seen.begun != state.begun)
    seen = {state.begun, now, 0ms, 0, {}, own_number_of(process), name_space_of(process), {}};
  // Whoever loads the driver, or executes another program, gets another size.
  const bool has_changed = !seen.has_auditor && state.size != seen.size && seen.pause > shortest_pause;
  if (state.state == 'Z' || (now < seen.next && !has_changed) || is_watched(process)) return;
  seen.size = state.size;
  const std::string program = link_of(process, "exe");
  const auto parent = seen_.find(state.parent);
  if (program == link_of(state.parent, "exe") &&
      (is_watched(state.parent) || (parent != seen_.end() && parent->second.copied == program)))
    seen.copied = program;
  const bool is_copy = !program.empty() && seen.copied == program; // also when its parent has ended
  // Asked again, because a process can change its user or root folder after it has loaded the driver.
  const Mapped mapped = mapped_in(process);
  if (std::string reason = reason_for(process, mapped, is_copy); !reason.empty())
    seen.reason = std::move(reason);
  seen.has_auditor = mapped.auditor;
  seen.pause = std::clamp<Clock::duration>(2 * seen.pause, shortest_pause,
                                           mapped.auditor ? longest_pause : longest_pause_of_others);
  seen.next = now + seen.pause;
}

void UnwatchedProcesses::look(const std::function<bool(pid_t)>& is_watched) {
  if (root_ == 0 || Clock::now() < next_look_) return;
  const auto begin = time_of_this_thread();
  for (const pid_t process : all_processes())
    if (const auto state = state_of(process); state) {
      const auto known = seen_.find(process);
      if (process == root_ || seen_.contains(state->parent) ||
          (known != seen_.end() && known->second.begun == state->begun)) // its parent may have ended
        inspect(process, *state, is_watched);
    }
  const auto used = time_of_this_thread() - begin;
  next_look_ = Clock::now() + std::max<Clock::duration>(pause_of_looks, share * used);
}

pid_t UnwatchedProcesses::seen_as(unsigned number, std::uint64_t name_space) const {
  for (const auto& [process, seen] : seen_)
    if (seen.name_space == name_space && seen.number == std::to_string(number)) return process;
  return 0;
}

std::vector<Unwatched> UnwatchedProcesses::found(const std::function<bool(pid_t)>& is_watched) const {
  std::vector<Unwatched> found;
  for (const auto& [process, seen] : seen_)
    if (!seen.reason.empty() && !is_watched(process))
      found.push_back({static_cast<unsigned>(process), seen.reason});
  return found;
}

} // namespace watch
