// SPDX-License-Identifier: MIT
// What /proc tells about processes, and which of them use the driver unwatched.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace watch {

/// A line of /proc/PID/stat.
struct SystemState {
  char state = '?'; // Z: it has ended
  pid_t parent = 0;
  std::uint64_t begun = 0; // tells it from a later process with this number
  std::uint64_t size = 0;  // of its address space
};

/// Nothing if there is no such process.
std::optional<SystemState> state_of(pid_t process);

/// Whether the process has no rights but of this user. Nothing if there is no such process.
std::optional<bool> is_of_this_user(pid_t process);

/// The inode of a process's namespace for process numbers. 0 if it has ended, or may not be inspected.
std::uint64_t name_space_of(pid_t process);

/// The number here of a process that has `number` in that namespace. 0 if it has ended, or may not be
/// inspected.
pid_t number_here(unsigned number, std::uint64_t name_space);

/// A process that could not be watched, or only in part.
struct Unwatched {
  unsigned process;
  std::string reason; // "its environment was cleaned"
};

/// Looks for descendants of a process that have loaded the driver but record no calls. Processes that live
/// for a few hundredths of a second may be missed.
class UnwatchedProcesses {
public:
  explicit UnwatchedProcesses(pid_t root) : root_(root) {}

  /// Looks if it is time to. `is_watched` says whether a process records its calls.
  void look(const std::function<bool(pid_t)>& is_watched);

  /// The process that was seen with `number` in a namespace for process numbers, even if it has ended, or 0.
  pid_t seen_as(unsigned number, std::uint64_t name_space) const;

  /// Those that are still not watched.
  std::vector<Unwatched> found(const std::function<bool(pid_t)>& is_watched) const;

private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::uint64_t begun = 0;
    Clock::time_point next{}; // is not inspected before
    Clock::duration pause{};
    std::uint64_t size = 0;       // of its address space when it was inspected
    std::string reason;           // empty: it has not loaded the driver
    std::string number;           // in its own namespace for process numbers
    std::uint64_t name_space = 0; // its inode
    std::string copied;           // the program, if it was forked from a watched process or from such a copy
    bool has_auditor = false;
  };

  void inspect(pid_t process, const SystemState& state, const std::function<bool(pid_t)>& is_watched);

  pid_t root_;
  Clock::time_point next_look_{};
  std::map<pid_t, Seen> seen_; // the process and its descendants
};

} // namespace watch
