// SPDX-License-Identifier: MIT
// What <bit> has, for C++17 too. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The bytes of `value` as another type. As std::bit_cast.
template <class To, class From>
To same_bytes(const From& value) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  static_assert(std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
  To result;
  std::memcpy(static_cast<void*>(&result), &value, sizeof result);
  return result;
}

/// The number of bits that `value` needs: 0 for 0, 3 for 4 to 7.
constexpr unsigned width_of(std::uint64_t value) noexcept {
  return value == 0 ? 0 : 64 - static_cast<unsigned>(__builtin_clzll(value));
}

/// The lowest power of two that is at least `value`.
constexpr std::uint64_t power_of_two_from(std::uint64_t value) noexcept {
  return value <= 1 ? 1 : std::uint64_t{1} << width_of(value - 1);
}

}} // namespace cuevent::CUEVENT_ABI
