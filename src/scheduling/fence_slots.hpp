// SPDX-License-Identifier: MIT
// The counters of fences, and the pages of pinned memory that hold the counters. Internal to the
// library.
#pragma once

#include "core/cache_line.hpp"

#include <cuevent/context.hpp>

#include <atomic>
#include <cstdint>

namespace cuevent { inline namespace CUEVENT_ABI {

/// What the host knows about one counter. A counter never decreases, even when another fence takes
/// the counter over. Otherwise a stream of another context that has not reached its wait yet would
/// wait forever.
struct alignas(cache_line) FenceSlot {
  static constexpr unsigned long long no_stream = ~0ULL;

  /// The address that the device writes to. The counter has 64 bits, or 32 bits if the device
  /// cannot write 64 bits.
  void* counter = nullptr;
  bool narrow = false;
  /// Whether a fence has this slot. A slot without a fence becomes free when its last ticket is
  /// reached.
  std::atomic<bool> in_use{false};
  /// The newest submitted ticket. Stored after the submission, so the counter may be ahead.
  std::atomic<std::uint64_t> signalled{0};
  /// The id of the stream that signals, after its first signal. no_stream for the legacy stream.
  std::atomic<unsigned long long> stream_id{no_stream};

  const std::uint64_t* wide() const noexcept { return static_cast<const std::uint64_t*>(counter); }
  CUdeviceptr address() const noexcept { return reinterpret_cast<std::uintptr_t>(counter); }
  /// The newest reached ticket.
  [[gnu::visibility("hidden")]] std::uint64_t completed() const noexcept;
};

/// Takes a free slot of `context`. Allocates a new page if necessary. The caller gives the slot
/// back by setting in_use to false.
CUresult take_slot(const Context& context, FenceSlot*& out) noexcept;

}} // namespace cuevent::CUEVENT_ABI
