// SPDX-License-Identifier: MIT
// Sources of copies that have not begun: a change of one is a mistake. The auditor records a probe before the
// copy, and compares the bytes as long as the probe is not reached. It looks when the program submits another
// copy of the same memory, when it is about to wait, and from the looker, which sleeps in between.
//
// The bytes are read by a call of the kernel, which fails if they are not mapped any more. And only memory
// of PinnedMemory is read, under its lock.
#pragma once

#include "auditor/libraries.hpp"
#include "auditor/pinned_memory.hpp"
#include "auditor/probed_streams.hpp"
#include "protocol/protocol.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace watch {

struct Thread;

/// Rows of the host's memory, or one row.
struct Source {
  std::uint64_t begin, width, pitch, rows;

  std::uint64_t end() const { return begin + (rows - 1) * pitch + width; }
};

struct PendingSource {
  std::atomic<std::uint64_t> number; // of the copy; 0 for a free place
  Source source;
  std::uint64_t bytes; // what they were, as a hash
  Stream* stream;
  std::uint64_t handle; // of the stream
  std::uint64_t probe;  // before the copy
};

struct PendingSources {
  static constexpr std::uint32_t limit = 64;

  std::atomic<std::uint32_t> count;      // of `places` that are in use
  std::atomic<std::uint64_t> last;       // number of a copy
  std::atomic<std::uint64_t> next_look;  // the tick from which a wait may look again
  std::atomic<std::uint32_t> sleeps;     // the looker, until something is pending
  std::atomic<std::uint32_t> unreadable; // the kernel refuses to read
  PendingSource places[limit];           // changed under the lock of PinnedMemory
  unsigned char bytes[4096];             // the same
};

/// What tells whether a copy has begun.
struct SourceProbe {
  Source source = {};       // width 0: it is not looked at
  Stream* stream = nullptr; // null: it could not be
  std::uint64_t number = 0;
};

// The source of a copy on a stream, if the host's memory is. The overloads take the arguments of the driver's
// functions.
template <class... Arguments>
Source source_of(Arguments...) {
  return {};
}
Source source_of(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream);
Source source_of(CUdeviceptr to, const void* from, std::size_t size, CUstream);
Source source_of(CUarray, std::size_t, const void* from, std::size_t size, CUstream);
Source source_of(const CUDA_MEMCPY2D* copy, CUstream);

/// Before the copy.
SourceProbe begin_source(Thread& thread, unsigned library, const CallData& call, const Source& source);
/// After it has succeeded, before its record. Returns the number of the copy, or 0 if it is not looked at.
std::uint64_t note_source(const SourceProbe& probe, const CallData& call);
/// Before a call that waits.
void look_at_sources_before(const CallData& call);
/// From the looker, whose calls of this library are in relaxed mode. Returns whether any are pending.
bool look_at_sources(bool (&is_relaxed)[library_limit]);

/// The memory is freed. The caller holds the lock of PinnedMemory.
void forget_sources_in(std::uint64_t begin, std::uint64_t end);
/// The stream is destroyed.
void forget_sources_of(const Stream& stream);

} // namespace watch
