// SPDX-License-Identifier: MIT
#pragma once

#include "operation.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace cuevent::sim {

/// The thread that runs host functions and destructors of user objects, one at a time and in
/// order. Used under the computer's lock. The thread releases the lock while a function runs.
class HostThread {
public:
  void run(const std::shared_ptr<Operation>&);
  void run_destructor(CUhostFn, void* pointer);

  bool busy() const { return !queue_.empty() || current_; }
  /// The running function has had its time and is not expected to return by itself.
  bool stuck() const;
  /// Gives the running function time to return. A function that does not return is treated as a
  /// gate, and settle() does not wait for it again.
  void settle(std::unique_lock<std::mutex>&);
  /// Waits until all tasks are done. Waits indefinitely, or until the computer's patience runs
  /// out.
  void drain(std::unique_lock<std::mutex>&);

  const std::shared_ptr<Operation>& running() const { return running_; }
  static bool is_this_thread();

  void stop(std::unique_lock<std::mutex>&);
  void lost_in_fork();

private:
  struct Task {
    std::shared_ptr<Operation> operation; ///< null for a destructor
    CUhostFn function = nullptr;
    void* data = nullptr;
  };
  void start();
  void loop();

  std::deque<Task> queue_;
  std::thread thread_;
  bool current_ = false;
  bool stopping_ = false;
  std::shared_ptr<Operation> running_;
  unsigned long long taken_ = 0;   ///< tasks begun
  unsigned long long gave_up_ = 0; ///< the last task that settle() stopped waiting for
};

} // namespace cuevent::sim
