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

/// The one thread that runs host functions and the destructors of user objects, one at a time in order.
/// Used under the computer's lock, which it gives up while a function runs.
class HostThread {
public:
  void run(const std::shared_ptr<Operation>&);
  void run_destructor(CUhostFn, void* pointer);

  bool busy() const { return !queue_.empty() || current_; }
  /// What runs now is not expected to return by itself: it had its time.
  bool stuck() const;
  /// Gives a function that just runs the time to return. One that does not is taken for a gate, and not
  /// waited for again.
  void settle(std::unique_lock<std::mutex>&);
  /// Waits for ever, or for the patience of the computer, until all is done.
  void drain(std::unique_lock<std::mutex>&);

  const std::shared_ptr<Operation>& running() const { return running_; }
  static bool is_this_thread();

  void stop(std::unique_lock<std::mutex>&);
  void lost_in_fork();

private:
  struct Task {
    std::shared_ptr<Operation> operation; ///< null: a destructor
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
  unsigned long long gave_up_ = 0; ///< the last task that settle stopped waiting for
};

} // namespace cuevent::sim
