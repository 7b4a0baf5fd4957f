// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace cuevent::sim {

struct Capture;

struct Allocation {
  std::size_t bytes = 0;
  bool host = false;
  unsigned flags = 0;
  Birthplace home;
  std::unique_ptr<std::byte[]> memory;
};

/// What a thread is to one process.
struct ThreadState {
  std::vector<std::shared_ptr<Context>> contexts; ///< the current one last
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

/// One simulated process: what it shares with the other are the devices and the clock.
struct Process {
  int index = 0;
  bool initialized = false;
  bool deinitialized = false;
  bool forked = false; ///< this is a child of the OS process that initialized it
  CUresult fault = CUDA_SUCCESS;
  bool fault_delivered = false;
  Time fault_noticed = never; ///< when the driver finds out by itself
  bool fault_at_once = false; ///< a control call made it: whatever is asked for next is told
  unsigned long long calls = 0;
  std::map<int, std::shared_ptr<Context>>
      primaries;                                  ///< by device; the handle is the same for the whole session
  std::vector<std::shared_ptr<Context>> contexts; ///< all that ever were
  std::vector<std::shared_ptr<Capture>> captures; ///< ongoing, the invalidated ones too
  std::unordered_map<ThreadId, ThreadState> threads;
  std::map<std::uintptr_t, Allocation> allocations; ///< by address
};

} // namespace cuevent::sim
