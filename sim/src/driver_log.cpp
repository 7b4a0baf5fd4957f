// SPDX-License-Identifier: MIT
#include "driver_log.hpp"

#include "api.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace cuevent::sim {

#if CUDA_VERSION >= 12090

namespace {

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

void DriverLog::write(std::unique_lock<std::mutex>& lock, int process, const LogEntry& entry) const {
  // Not measured: log.events. A call that succeeds logs nothing, and NOT_READY counts as an answer here.
  if (entry.result == CUDA_ERROR_NOT_READY) return;
  // Not measured: log.callbacks, log.forked. Nothing waits for a callback, as if a device kept no lock.
  const auto listeners =
      listeners_[static_cast<std::size_t>(process)]; // a copy, for the time without the lock
  if (listeners.empty()) return;
  lock.unlock();
  char text[256];
  std::snprintf(text, sizeof text, "Returning %d (%s) from %s", static_cast<int>(entry.result),
                name_of(entry.result), entry.call);
  for (const char* const line : {entry.reason, static_cast<const char*>(text)}) {
    if (line == nullptr) continue;
    for (const Listener& listener : listeners) {
      char copy[256];
      std::snprintf(copy, sizeof copy, "%s", line);
      listener.function(listener.data, CU_LOG_LEVEL_ERROR, copy, std::strlen(copy));
    }
  }
}

CUlogsCallbackHandle DriverLog::add(int process, CUlogsCallback function, void* data) {
  const auto handle = reinterpret_cast<CUlogsCallbackHandle>(++handles_);
  listeners_[static_cast<std::size_t>(process)].push_back({function, data, handle});
  return handle;
}

bool DriverLog::remove(int process, CUlogsCallbackHandle handle) {
  return std::erase_if(listeners_[static_cast<std::size_t>(process)],
                       [&](const Listener& one) { return one.handle == handle; }) != 0;
}

CUresult Api::cuLogsRegisterCallback(CUlogsCallback function, void* data, CUlogsCallbackHandle* out) {
  refuse_if(function == nullptr, CUDA_ERROR_INVALID_VALUE);
  CUlogsCallbackHandle const handle = computer_.log.add(process_.index, function, data);
  if (out != nullptr) *out = handle;
  return CUDA_SUCCESS;
}

CUresult Api::cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  refuse_if(!computer_.log.remove(process_.index, handle), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

#else

void DriverLog::write(std::unique_lock<std::mutex>&, int, const LogEntry&) const {}

#endif

} // namespace cuevent::sim
