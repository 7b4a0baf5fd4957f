// SPDX-License-Identifier: MIT
// The counters that fences are made of, and the pages of pinned memory that they are in. Inside the library
// only.
#pragma once

#include "core/cache_line.hpp"

#include <cuevent/context.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuevent {

/// What the host knows of one counter. A counter never goes back, also not from one fence to the next that
/// has it: a stream of some other context may not have come to its wait yet, and would then wait for ever.
struct alignas(cache_line) FenceSlot {
  static constexpr unsigned long long no_stream = ~0ULL;

  /// Where the device writes: 64 bits, or 32 where it can write no more.
  void* counter = nullptr;
  bool narrow = false;
  /// Whether a fence has it. Without one, it waits until its last ticket is reached, and is free then.
  std::atomic<bool> in_use{false};
  /// The newest ticket that was submitted.
  std::atomic<std::uint64_t> signalled{0};
  /// The id of the stream that signals, once it has; no_stream for the legacy stream.
  std::atomic<unsigned long long> stream_id{no_stream};

  const std::uint64_t* wide() const noexcept { return static_cast<const std::uint64_t*>(counter); }
  CUdeviceptr address() const noexcept { return reinterpret_cast<std::uintptr_t>(counter); }
  /// The newest ticket that is reached.
  std::uint64_t completed() const noexcept;
};

/// A free slot of `context`, in a new page if need be, for the caller to give back by in_use = false.
CUresult take_slot(const Context& context, FenceSlot*& out) noexcept;

} // namespace cuevent
