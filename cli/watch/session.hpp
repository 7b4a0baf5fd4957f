// SPDX-License-Identifier: MIT
// What `cuevent watch` knows while it runs: the calls of all watched processes, and what is wrong with them.
#pragma once

#include "report/blind_spots.hpp"
#include "report/hang.hpp"
#include "report/process_rules.hpp"
#include "report/report.hpp"
#include "report/system_processes.hpp"
#include "watch/jitter.hpp"
#include "watch/shared_folder.hpp"
#include "watch/watch.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <sys/types.h>
#include <vector>

namespace cli {

class WatchSession {
public:
  WatchSession(const WatchOptions& options, const SharedFolder& folder, watch::WatchReport& report,
               watch::HangReports& hangs, HeldCalls& held);
  WatchSession(const WatchSession&) = delete;
  WatchSession& operator=(const WatchSession&) = delete;
  ~WatchSession();

  /// The process whose descendants are watched.
  void start(pid_t root) { others_.emplace(root); }

  /// Takes out what there is. Returns whether there was anything.
  bool read();

  /// Throws if processes that start now would not find the folder.
  void check_place() const { place_.check(); }

  /// Looks for processes that use the driver but record nothing.
  void find_unwatched();

  /// Reports processes in which nothing moves for that long.
  void find_hangs(std::chrono::nanoseconds limit);

  /// Reports the processes in which something has been pending for that long. If there are none and
  /// `in_any_case`, it reports others.
  void report(std::chrono::nanoseconds at_least, bool in_any_case);

  /// Lets go of processes that have ended.
  void end_processes();

  /// The watch ends, and some processes run on.
  void leave_processes();

  std::size_t processes() const { return processes_.size() + ended_.size(); }
  unsigned long calls() const { return calls_; }
  const watch::OrderBlindness& blind() const { return blind_; }
  const watch::BlindSpots& passed_by() const { return passed_by_; }
  bool has_torch_with_order() const { return has_torch_ && !options_.order.empty(); }

  /// Processes of which not all calls are known.
  const std::vector<watch::Unwatched>& partly_watched() const { return partly_; }

  /// Processes whose calls are not known.
  std::vector<watch::Unwatched> unwatched() const;

private:
  struct Process {
    std::shared_ptr<watch::CallFile> file;
    std::unique_ptr<watch::World> world;
    std::unique_ptr<watch::HangWatch> hang; // null without probes
  };

  void add(const std::shared_ptr<watch::CallFile>& file);
  /// Whether there was anything new.
  bool read(watch::CallFile& file, watch::World& world);
  void see(const watch::CallFile& file, watch::World& world, const watch::Call& call);
  /// No more calls of it are read.
  void take_leave_of(const Process& process);
  void note_what_is_missing(const watch::CallFile& file);

  const WatchOptions& options_;
  const SharedFolder& place_;
  watch::CallFolder folder_;
  watch::WatchReport& report_;
  watch::HangReports& hangs_;
  HeldCalls& held_;
  std::vector<Process> processes_;
  std::vector<std::shared_ptr<watch::CallFile>> ended_;
  std::set<pid_t> watched_; // all that have ever had a file
  std::vector<watch::Unwatched> partly_;
  std::optional<watch::UnwatchedProcesses> others_;
  unsigned long calls_ = 0;
  watch::OrderBlindness blind_;
  watch::BlindSpots passed_by_;
  bool has_torch_ = false; // which has an allocator of its own
};

} // namespace cli
