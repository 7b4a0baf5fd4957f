// SPDX-License-Identifier: MIT
#pragma once

#include "object.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace cuevent::sim {

/// The memory of pools and of graphs is allocated in pieces of this size.
inline constexpr std::size_t granule = 512;
inline constexpr std::size_t chunk = 32 << 20; ///< what they take from the device at a time
inline std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// What a pool that is not of a device has, and where. A place without a number has 0.
struct PoolKind {
  CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;
  CUmemLocationType place = CU_MEM_LOCATION_TYPE_DEVICE;
  int number = 0;

  auto operator<=>(const PoolKind&) const = default;
};

struct Operation;

/// A freed block, which the pool keeps for an allocation of the same size.
struct IdleBlock {
  std::unique_ptr<std::byte[]> memory;
  std::shared_ptr<Operation> freed{}; ///< the work that frees it, or null after cuMemFree
  unsigned long long stream = 0;      ///< the number of the stream of that work
};

/// Memory that streams allocate and free. Freed blocks are kept while the pool holds no more than the
/// threshold.
struct MemoryPool : Object {
  static constexpr int of_the_host = -1, managed = -2;
  int device = 0;
  PoolKind kind;                    ///< if it is not of a device
  unsigned devices_with_access = 0; ///< the same, one bit each
  bool host_has_access = false;     ///< to managed memory
  int handle_types = 0;             ///< with which it can be given to other processes
  bool is_default = false;
  int follow_events = 1, opportunistic = 1, internal_dependencies = 1;
  std::uint64_t most_bytes = 0; ///< zero: no limit
  std::uint64_t given_back = 0; ///< what cuMemFree returned, and the used size still counts
  std::uint64_t threshold = 0;
  std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  std::multimap<std::size_t, IdleBlock> idle; ///< by size, those freed first before others

  std::uint64_t in_use() const { return used - given_back; }
  /// A pool takes whole chunks, so its limit is a multiple of them too.
  bool has_room_for(std::size_t bytes, std::size_t idle_elsewhere = 0) const;
};

/// Whether bytes are set that the properties keep for later versions.
bool has_reserved_bytes(const CUmemPoolProps&);

struct Allocation;
struct Process;

/// The memory returns to its pool.
void give_back(Process&, Allocation&);

/// A pool gives memory back to the device until it holds no more than this.
void trim(Process&, MemoryPool&, std::uint64_t bytes);

/// What every call that waits does: each pool keeps to its threshold.
void trim_pools(Process&);

} // namespace cuevent::sim
