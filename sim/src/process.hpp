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
struct GraphMemory;
struct MemoryPool;

struct Allocation {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool host = false;
  bool managed = false;
  bool prefers_host = false; ///< as cuMemAdvise was told about managed memory
  int synchronous = 0;       ///< as cuPointerSetAttribute set it; every such call is synchronous anyway
  bool variable = false;     ///< of a module
  unsigned flags = 0;
  Birthplace home;
  std::unique_ptr<std::byte[]> memory;   ///< null for memory of the program that is registered
  std::shared_ptr<MemoryPool> pool;      ///< null for memory that no stream allocated
  std::shared_ptr<GraphMemory> of_graph; ///< null for memory that no graph allocated
  unsigned long long number = 0;
};

/// The state of a thread in one process.
struct ThreadState {
  std::vector<std::shared_ptr<Context>> contexts; ///< the current context is last
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

/// One simulated process. The two processes share the devices and the clock.
struct Process {
  int index = 0;
  bool initialized = false;
  bool deinitialized = false;
  bool forked = false; ///< true in a child of the OS process that initialized it
  CUresult fault = CUDA_SUCCESS;
  bool fault_delivered = false;
  Time fault_noticed = never; ///< when the driver notices the fault by itself
  bool fault_at_once = false; ///< raised by a control call: the next submission reports it
  unsigned long long calls = 0;
  std::map<int, std::shared_ptr<Context>>
      primaries;                                  ///< by device; the handle is the same for the whole session
  std::vector<std::shared_ptr<Context>> contexts; ///< all contexts ever made
  std::vector<std::shared_ptr<Capture>> captures; ///< ongoing captures, including invalidated ones
  std::unordered_map<ThreadId, ThreadState> threads;
  std::map<std::uintptr_t, Allocation> allocations; ///< by address
  unsigned long long allocations_made = 0;
  std::map<std::uintptr_t, std::weak_ptr<GraphMemory>> graph_memory; ///< of all allocation nodes, by address
  struct Pools {
    std::shared_ptr<MemoryPool> standard, current, managed, of_graphs;
  };
  std::map<int, Pools> pools;                            ///< by device
  std::vector<std::shared_ptr<MemoryPool>> memory_pools; ///< all of them
  std::vector<std::shared_ptr<const void>> dropped;      ///< given back, but perhaps used by pending work
};

} // namespace cuevent::sim
