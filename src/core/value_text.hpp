// SPDX-License-Identifier: MIT
// Parts of the texts of values. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

/// "0x1a0".
inline std::string hexadecimal(std::uint64_t number) {
  char digits[2 * sizeof number];
  return "0x" + std::string(digits, std::to_chars(digits, std::end(digits), number, 16).ptr);
}

/// The name of `value`, which has the enumerators `names` from 0 on, or "CaptureMode(7)".
template <class Enum>
std::string enumerator(Enum value, const char* type, std::initializer_list<const char*> names) {
  const auto number = static_cast<std::uint64_t>(value);
  if (number < names.size()) return names.begin()[number];
  // Appended: g++ 12 warns of an overlap in `const char* + std::string&&` at -O3.
  return std::string(type).append("(").append(std::to_string(static_cast<long long>(value))).append(")");
}

}} // namespace cuevent::CUEVENT_ABI
