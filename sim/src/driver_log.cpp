// SPDX-License-Identifier: MIT
#include "driver_log.hpp"

#include "api.hpp"

#include <algorithm>
#include <cstdio>
#include <new>
#include <sstream>

namespace cuevent::sim {

#if CUDA_VERSION >= 12090

namespace {

/// The callbacks that this thread is in, by process.
thread_local std::array<int, 2> running_here{};

const char* name_of(CUresult result) {
  switch (result) {
#define RESULT(name, text)                                                                                   \
  case name:                                                                                                 \
    return #name;
#include "results.inc"
#undef RESULT
  default:
    return "unknown";
  }
}

} // namespace

void DriverLog::write(std::unique_lock<std::mutex>& lock, int process_index, const LogEntry& entry) {
  if (entry.result == CUDA_ERROR_NOT_READY) return; // an answer, and no refusal
  const auto process = static_cast<std::size_t>(process_index);
  const auto listeners = listeners_[process]; // a copy, for the time without the lock
  if (listeners.empty()) return;
  ++running_[process];
  ++running_here[process];
  lock.unlock();
  char last[256];
  std::snprintf(last, sizeof last, "Returning %d (%s) from %s", static_cast<int>(entry.result),
                name_of(entry.result), entry.call);
  std::istringstream lines((entry.reason != nullptr ? std::string(entry.reason) + "\n" : "") + last);
  for (std::string line; std::getline(lines, line);) {
    for (const Listener& listener : listeners) {
      std::string copy = line;
      listener.function(listener.data, CU_LOG_LEVEL_ERROR, copy.data(), copy.size());
    }
  }
  lock.lock();
  --running_here[process];
  if (--running_[process] == 0) idle_.notify_all();
}

/// Not known: which calls of the child are logged. The simulator logs all that are refused.
void DriverLog::lost_in_fork() {
  new (&idle_) std::condition_variable; // the old one waits for the parent's threads
  running_ = running_here;
}

CUlogsCallbackHandle DriverLog::add(int process, CUlogsCallback function, void* data) {
  const auto handle = reinterpret_cast<CUlogsCallbackHandle>(++handles_);
  listeners_[static_cast<std::size_t>(process)].push_back({function, data, handle});
  return handle;
}

bool DriverLog::remove(std::unique_lock<std::mutex>& lock, int process_index, CUlogsCallbackHandle handle) {
  const auto process = static_cast<std::size_t>(process_index);
  const auto has_handle = [&](const Listener& one) { return one.handle == handle; };
  if (std::erase_if(listeners_[process], has_handle) == 0) return false;
  if (running_here[process] != 0)
    not_modelled("the end of a callback for the driver's log inside such a callback");
  idle_.wait(lock, [&] { return running_[process] == 0; }); // any callback, as on a device
  return true;
}

CUresult Api::cuLogsRegisterCallback(CUlogsCallback function, void* data, CUlogsCallbackHandle* out) {
  refuse_if(function == nullptr, CUDA_ERROR_INVALID_VALUE, "callbackFunc cannot be NULL");
  CUlogsCallbackHandle const handle = computer_.log.add(process_.index, function, data);
  if (out != nullptr) *out = handle;
  return CUDA_SUCCESS;
}

CUresult Api::cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE, "Callback handle cannot be NULL");
  if (!computer_.log.remove(lock_, process_.index, handle))
    crash("the callback for the driver's log is not registered, or not any more");
  return CUDA_SUCCESS;
}

#else

void DriverLog::write(std::unique_lock<std::mutex>&, int, const LogEntry&) {}

void DriverLog::lost_in_fork() {}

#endif

} // namespace cuevent::sim
