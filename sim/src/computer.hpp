// SPDX-License-Identifier: MIT
#pragma once

#include "handles.hpp"
#include "host_thread.hpp"
#include "process.hpp"
#include "scheduler.hpp"

#include "cuevent/sim.hpp"

#include <array>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace cuevent::sim {

struct Recording;

/// The simulated computer: devices, clock, processes, all under one lock. It is never destroyed, because a
/// program may make driver calls to its very end.
class Computer {
public:
  static Computer& instance();

  using Lock = std::unique_lock<std::mutex>;

  std::mutex mutex;
  std::condition_variable changed;

  // Under the lock
  Options options;
  Handles handles;
  HostThread host;
  Scheduler scheduler{host};
  std::array<Process, 2> processes;
  std::map<std::string, Kernel, std::less<>> kernels; ///< by name; "" is the default
  struct ExportedEvent {
    std::shared_ptr<Recording> recording; ///< a device opens it even once the exporter is gone
    int device = 0;
  };
  std::map<std::uintptr_t, ExportedEvent> exported_events; ///< by handle, which is never given out again
  unsigned long long context_ids = 0;
  unsigned long long stream_ids = 1; ///< 1 is the legacy stream
  unsigned long long capture_ids = 0;

  void reset(Lock&, const Options&);
  void end_process(Process&);
  /// What is told the computer before any session began; used by the drop-in library.
  static void set_default_options(const Options&);

  bool running() const { return options.mode == Mode::running; }
  /// A driver call begins: time passes.
  void tick(Lock&);
  /// In running mode: all that is due by now runs.
  void catch_up();
  /// After a submission or a control changed what can run.
  void settle(Lock&);

  /// Blocks a driver call. `what` is said in the wait-for graph if the wait turns out to be for ever.
  template <class Predicate>
  void wait_until(Lock&, const std::string& what, Predicate);

  /// Gives a kernel the duration and the end that its name has.
  void set_up_kernel(Work&) const;

  ThreadState& this_thread(Process&);
  static ThreadId this_thread_id();

  /// Called by the first cuInit: from then on the end of the program is the driver's, too.
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
  std::list<Waiter> waiters_;
};

/// How long a wait has seen no progress.
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

/// The process has this sticky error from now on, and nothing it has pending completes.
void raise_fault(Process&, CUresult, bool at_once);

/// Who is told of a fault: what asks for work at once or when the driver noticed, what asks for an event of
/// before only then.
enum class FaultNews { of_a_submission, of_an_event };
void meet_fault(Process&, FaultNews);

} // namespace cuevent::sim
