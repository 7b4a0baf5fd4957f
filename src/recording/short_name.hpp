// SPDX-License-Identifier: MIT
// The beginning of a name, in words. Internal to the library.
#pragma once

#include "core/name_text.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Names are cut to 40 bytes, between two characters. The rest of a shorter name is zero.
struct ShortName {
  static constexpr std::size_t most = 40;

  ShortName() noexcept = default;
  /// Makes each word in a register, because a processor waits if it reads a word whose bytes were just
  /// written one by one.
  explicit ShortName(std::string_view name) noexcept {
    if (name.size() > most) name = beginning(name, most);
    const std::size_t size = name.size(), whole = size / sizeof(std::uint64_t);
    for (std::size_t i = 0; i < whole; ++i)
      words[i] = load(name.data() + i * sizeof(std::uint64_t));
    const std::size_t rest = size % sizeof(std::uint64_t);
    if (rest == 0) return;
    if (whole != 0) { // the last eight bytes, without the bytes of the word before
      words[whole] = load(name.data() + size - sizeof(std::uint64_t)) >> 8 * (sizeof(std::uint64_t) - rest);
      return;
    }
    for (std::size_t i = 0; i < rest; ++i)
      words[0] |= std::uint64_t{static_cast<unsigned char>(name[i])} << 8 * i;
  }

  std::string_view text() const noexcept {
    const char* const bytes = reinterpret_cast<const char*>(words.data());
    const void* const end = std::memchr(bytes, 0, most);
    return {bytes, end == nullptr ? most : static_cast<std::size_t>(static_cast<const char*>(end) - bytes)};
  }

  std::array<std::uint64_t, most / sizeof(std::uint64_t)> words{};

private:
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bytes of a word begin with its lowest one");
  static std::uint64_t load(const char* bytes) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }
};

}} // namespace cuevent::CUEVENT_ABI
