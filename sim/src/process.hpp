// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"
#include "exported_memory.hpp"
#include "managed_ranges.hpp"
#include "memory_pool.hpp"
#include "virtual_memory.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace cuevent::sim {

struct Capture;
struct GraphMemory;
struct MemoryPool;

/// Fresh memory is not zero, so that no program depends on zeros.
inline constexpr int fresh = 0xa5;

struct Allocation {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool host = false;
  bool managed = false;
  ManagedRanges ranges;  ///< of managed memory
  int synchronous = 0;   ///< as cuPointerSetAttribute set it; every such call is synchronous anyway
  bool variable = false; ///< of a module
  unsigned flags = 0;
  Birthplace home;
  std::unique_ptr<std::byte[]> memory;      ///< null for memory of the program that is registered
  std::shared_ptr<MemoryPool> pool;         ///< null for memory that no stream allocated
  std::shared_ptr<GraphMemory> of_graph;    ///< null for memory that no graph allocated
  std::optional<Mapping> mapping;           ///< of virtual memory, which has no context
  std::unique_ptr<ExportedMemory> exported; ///< has the memory from the first export on
  std::unique_ptr<ImportedMemory> imported; ///< from another process
  unsigned long long number = 0;

  /// False for memory of the program that is registered.
  bool of_driver() const { return made_here() || mapping || imported; }
  /// The memory that a call of this process made at its address.
  bool made_here() const { return memory || exported; }
  bool of_host_pool() const { return host && pool; }
  /// Of cuMemAlloc and its like.
  bool is_plain() const {
    return !host && !managed && !variable && !pool && !of_graph && !mapping && !imported;
  }
  int device() const {
    if (mapping) return mapping->memory->properties.location.id;
    return home.context ? home.context->device : pool->device; // of a node that was made without a context
  }
};

/// The state of a thread in one process.
struct ThreadState {
  std::vector<std::shared_ptr<Context>> contexts; ///< the current context is last
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

/// The next call of a function fails.
struct FailingCall {
  std::string function; ///< its name in the documentation, without a version
  CUresult result;
};

/// One simulated process. The two processes share the devices and the clock.
struct Process {
  int index = 0;
  bool initialized = false;
  bool deinitialized = false;
  std::vector<FailingCall> failing; ///< what a control call has chosen, oldest first
  bool unusual = false;             ///< deinitialized, or there are failing calls: one check for each call
  bool forked = false;              ///< true in a child of the OS process that initialized it
  CoreDumpSettings core_dumps;
  bool linker_misled = false; ///< by an input: a device then reports later mistakes wrongly
  CUresult fault = CUDA_SUCCESS;
  bool fault_delivered = false;
  Time fault_noticed = never; ///< when the driver notices the fault by itself
  bool fault_at_once = false; ///< raised by a control call: the next submission reports it
  unsigned long long calls = 0;
  std::map<int, std::shared_ptr<Context>>
      primaries;                         ///< by device; the handle is the same for the whole session
  std::map<int, unsigned> primary_flags; ///< by device, set before its primary context was first retained
  std::vector<std::shared_ptr<Context>> contexts; ///< all contexts ever made
  std::vector<std::shared_ptr<Capture>> captures; ///< ongoing captures, including invalidated ones
  std::unordered_map<ThreadId, ThreadState> threads;
  std::map<std::uintptr_t, Allocation> allocations; ///< by address
  unsigned long long allocations_made = 0;
  struct {
    std::size_t bytes = 0;
    std::unique_ptr<std::byte[]> memory;
  } last_freed; ///< of cuMemAlloc. The next allocation of the same size has its address, as on a device
  std::map<std::uintptr_t, AddressRange> ranges;                     ///< that were reserved, by address
  std::vector<std::shared_ptr<PhysicalMemory>> physical_memory;      ///< that was made here
  std::map<std::uintptr_t, std::weak_ptr<GraphMemory>> graph_memory; ///< of all allocation nodes, by address
  std::set<std::shared_ptr<GraphMemory>> mapped_graph_memory;        ///< since a launch, until it is trimmed
  struct Pools {
    std::shared_ptr<MemoryPool> standard, current, of_graphs;
  };
  std::map<int, Pools> pools;                            ///< by device
  std::map<PoolKind, Pools> other_pools;                 ///< those that are not of a device
  std::vector<std::shared_ptr<MemoryPool>> memory_pools; ///< all of them
  std::vector<std::shared_ptr<const void>> dropped;      ///< given back, but perhaps used by pending work
  std::set<unsigned long long> released;                 ///< allocations that a pool gave back, the same

  std::vector<std::shared_ptr<const void>> kept; ///< for the life of the process

  void deinitialize() { deinitialized = unusual = true; }
};

/// Whether an allocation, or mappings without a gap, have all these bytes and allow this use.
bool is_allocated(const Process&, std::uintptr_t address, std::size_t bytes,
                  unsigned access = CU_MEM_ACCESS_FLAGS_PROT_READ, std::optional<int> device = std::nullopt);

} // namespace cuevent::sim
