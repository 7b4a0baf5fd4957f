// SPDX-License-Identifier: MIT
// A few words that one thread replaces while others read them. Internal to the library.
#pragma once

#include "core/cache_line.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Words under a number. Neither side waits for the other, so a signal handler can read too. A reader
/// that comes while the words are being replaced gets nothing.
template <std::size_t Count>
class alignas(Count == 7 ? cache_line : alignof(std::uint64_t)) PublishedWords {
public:
  using Words = std::array<std::uint64_t, Count>;

  /// From here on nobody reads the old words. One thread at a time calls this and publish().
  void retract() noexcept { number_.store(none, std::memory_order_relaxed); }

  /// After retract(): a reader that sees one of the new words also sees that the old ones are gone.
  void publish(std::uint64_t number, const Words& words) noexcept {
    for (std::size_t i = 0; i < Count; ++i)
      words_[i].store(words[i], std::memory_order_release);
    number_.store(number, std::memory_order_release);
  }

  /// Whether the words are those of that number.
  bool is(std::uint64_t number) const noexcept { return number_.load(std::memory_order_acquire) == number; }
  /// The number of the words; `none` if there are none.
  std::uint64_t number() const noexcept { return number_.load(std::memory_order_acquire); }

  /// Reads the words of that number. False if there are others, or none.
  bool read(std::uint64_t number, Words& words) const noexcept {
    if (!is(number)) return false;
    for (std::size_t i = 0; i < Count; ++i)
      words[i] = words_[i].load(std::memory_order_acquire);
    return is(number);
  }

  static constexpr std::uint64_t none = ~std::uint64_t{0};

private:
  std::atomic<std::uint64_t> number_{none};
  std::array<std::atomic<std::uint64_t>, Count> words_{};
};

}} // namespace cuevent::CUEVENT_ABI
