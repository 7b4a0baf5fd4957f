// SPDX-License-Identifier: MIT
#pragma once

#include "driver_log.hpp"
#include "handles.hpp"
#include "host_thread.hpp"
#include "process.hpp"
#include "report.hpp"
#include "scheduler.hpp"

#include "cuevent/sim.hpp"

#include <array>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace cuevent::sim {

struct Recording;

/// The simulated computer with its devices, clock and processes. One lock protects everything. The
/// computer is never destroyed, because a program may make driver calls until it ends.
class Computer {
public:
  static Computer& instance();

  using Lock = std::unique_lock<std::mutex>;

  std::mutex mutex;
  std::condition_variable changed;

  // Protected by the lock
  Options options;
  /// The numbers of the devices that the program sees, in its order. Empty if it sees all of them.
  std::optional<std::vector<int>> visible;
  Handles handles;
  HostThread host;
  Scheduler scheduler{host};
  DriverLog log;
  Report report;
  std::array<Process, 2> processes;
  std::map<std::string, Kernel, std::less<>> kernels; ///< by name; "" is the default
  /// How long the operations of a stream are held, by the number of the stream. Default streams are 0.
  std::map<unsigned long long, Time> holds;
  Time usual_hold = 0;
  struct ExportedEvent {
    std::shared_ptr<Recording> recording; ///< a device opens it even after the exporter is gone
    int device = 0;
  };
  std::map<unsigned long long, ExportedEvent> exported_events; ///< by Event::exported
  /// Of events of other processes of the system, by process and inode of the page.
  std::map<std::pair<int, unsigned long long>, std::weak_ptr<Recording>> recordings_of_others;
  unsigned long long events_exported = 0; ///< in all sessions
  unsigned long long context_ids = 0;
  unsigned long long stream_ids = 1; ///< 1 is the legacy stream
  unsigned long long capture_ids = 0;

  /// By all processes, in all sessions.
  unsigned long long calls() const { return calls_of_ended_ + processes[0].calls + processes[1].calls; }

  void reset(Lock&, const Options&);
  void end_process(Process&);
  /// The drop-in library reads CUDA_VISIBLE_DEVICES.
  static inline bool reads_environment = false;
  /// Sets the options used before the first session. The drop-in library calls this.
  static void set_default_options(const Options&);

  /// How many the program sees.
  int devices() const { return visible ? static_cast<int>(visible->size()) : options.devices; }
  /// In the machine.
  int number_of(CUdevice seen) const { return visible ? (*visible)[static_cast<std::size_t>(seen)] : seen; }

  /// As what the program sees the device with this number in the machine.
  std::optional<CUdevice> seen_as(int number) const;

  bool running() const { return options.mode == Mode::running; }
  /// Called at the start of a driver call. Time passes.
  void tick(Lock&);
  /// In running mode, runs everything that is due.
  void catch_up();
  /// Called after a submission or a control has changed what can run.
  void settle(Lock&);

  /// What has not completed, in the order of submission.
  std::vector<std::string> describe_unfinished() const;

  /// Blocks a driver call. The wait-for graph shows `what` if the wait would last forever.
  template <class Predicate>
  void wait_until(Lock&, const std::string& what, Predicate);

  Time hold_of(unsigned long long stream) const {
    const auto found = holds.find(stream);
    return found == holds.end() ? usual_hold : found->second;
  }
  /// Sets a kernel's duration and end from its name.
  void set_up_kernel(Work&) const;

  ThreadState& this_thread(Process&);
  static ThreadId this_thread_id();

  /// Called by the first cuInit. From then on, the driver also handles the end of the program.
  void register_exit_handlers();

private:
  Computer();

  struct Waiter {
    CallUnderWay call;
    ThreadId thread;
    std::string what;
  };
  class Patience;

  void begin_session(const Options&);
  void wait_a_little(Lock&, Patience&);
  [[noreturn]] void report_deadlock() const;
  void engine_loop();
  void start_engine();
  void end_of_program();
  Time wall_time() const;

  std::chrono::steady_clock::time_point origin_;
  std::thread engine_;
  bool stopping_ = false;
  bool exit_registered_ = false;
  unsigned long long calls_of_ended_ = 0; // processes
  std::list<Waiter> waiters_;
};

/// Measures how long a wait has seen no progress.
class Computer::Patience {
public:
  explicit Patience(const Computer& computer) : computer_(computer) { renew(); }
  void renew() {
    seen_ = computer_.scheduler.progress();
    end_ = std::chrono::steady_clock::now() + computer_.options.patience;
  }
  bool exhausted() {
    if (computer_.scheduler.progress() != seen_) renew();
    return std::chrono::steady_clock::now() >= end_;
  }

private:
  const Computer& computer_;
  unsigned long long seen_ = 0;
  std::chrono::steady_clock::time_point end_;
};

template <class Predicate>
void Computer::wait_until(Lock& lock, const std::string& what, Predicate predicate) {
  if (predicate()) return;
  waiters_.push_back({call_under_way, this_thread_id(), what});
  const auto self = std::prev(waiters_.end());
  Patience patience(*this);
  while (!predicate())
    wait_a_little(lock, patience);
  waiters_.erase(self);
}

/// Sets the sticky error of the process. Pending work of the process never completes.
void raise_fault(Process&, CUresult, bool at_once);

/// The kind of request that may report a fault:
/// - of_a_submission: submits work. Reports a fault at once if a control call raised the fault,
///   otherwise when the driver has noticed the fault.
/// - of_an_event: asks about an earlier event. Reports a fault only when the driver has noticed
///   the fault.
enum class FaultNews { of_a_submission, of_an_event };
void meet_fault(Process&, FaultNews);

} // namespace cuevent::sim
