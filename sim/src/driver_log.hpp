// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <array>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace cuevent::sim {

/// What the driver logs about a refused call: the lines of the reason, if there is one, and the result.
struct LogEntry {
  const char* call;
  CUresult result;
  const char* reason;
};

/// The callbacks for the driver's log, for each process. They outlive sessions, because a program registers
/// one for as long as it runs. Used under the computer's lock.
class DriverLog {
public:
  /// Calls the callbacks, and gives up the lock for them.
  void write(std::unique_lock<std::mutex>&, int process, const LogEntry&);
  /// In the child of a fork: no callback of another thread runs in it.
  void lost_in_fork();

#if CUDA_VERSION >= 12090
  CUlogsCallbackHandle add(int process, CUlogsCallback, void* data);
  /// Waits until no callback runs. False for an unknown handle.
  bool remove(std::unique_lock<std::mutex>&, int process, CUlogsCallbackHandle);

private:
  struct Listener {
    CUlogsCallback function;
    void* data;
    CUlogsCallbackHandle handle;
  };
  std::array<std::vector<Listener>, 2> listeners_;
  std::uintptr_t handles_ = 0;
  std::array<int, 2> running_{}; ///< calls whose callbacks run, in all threads
  std::condition_variable idle_;
#endif
};

} // namespace cuevent::sim
