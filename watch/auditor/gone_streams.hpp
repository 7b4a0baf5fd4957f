// SPDX-License-Identifier: MIT
// Streams that the program has destroyed: a few calls are recorded only if they name one.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

/// A stream may take the place of another one with the same hash, which is then forgotten.
/// Thread-safety: any thread may call it at any time.
class GoneStreams {
public:
  void add(std::uint64_t stream) { place_of(stream).store(stream, std::memory_order_relaxed); }
  /// A new stream has the handle, or the destruction has failed.
  void remove(std::uint64_t stream) {
    if (have(stream)) place_of(stream).store(0, std::memory_order_relaxed);
  }
  bool have(std::uint64_t stream) const {
    return stream != 0 && streams_[hash_of(stream)].load(std::memory_order_relaxed) == stream;
  }

private:
  static constexpr std::uint64_t count = 256;

  static std::uint64_t hash_of(std::uint64_t stream) {
    return ((stream * 0x9E37'79B9'7F4A'7C15U) >> 40U) % count;
  }
  std::atomic<std::uint64_t>& place_of(std::uint64_t stream) { return streams_[hash_of(stream)]; }

  std::atomic<std::uint64_t> streams_[count];
};

} // namespace watch
