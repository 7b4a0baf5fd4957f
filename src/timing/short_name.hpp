// SPDX-License-Identifier: MIT
// The beginning of a name, in words. Internal to the library.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cuevent {

/// Names are cut to 40 bytes. The rest of a shorter name is zero.
struct ShortName {
  static constexpr std::size_t most = 40;

  ShortName() noexcept = default;
  explicit ShortName(std::string_view name) noexcept {
    if (!name.empty()) std::memcpy(words.data(), name.data(), std::min(name.size(), most));
  }

  std::string_view text() const noexcept {
    const char* const bytes = reinterpret_cast<const char*>(words.data());
    const void* const end = std::memchr(bytes, 0, most);
    return {bytes, end == nullptr ? most : static_cast<std::size_t>(static_cast<const char*>(end) - bytes)};
  }

  std::array<std::uint64_t, most / sizeof(std::uint64_t)> words{};
};

} // namespace cuevent
