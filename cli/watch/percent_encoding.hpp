// SPDX-License-Identifier: MIT
// Text in formats that give some characters a meaning.
#pragma once

#include <string>
#include <string_view>

namespace cli {

/// "a%20b": each character that is not kept becomes a % and two digits.
template <class Keeps>
std::string percent_encoded(std::string_view text, Keeps keeps) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string all;
  for (const char c : text) {
    if (keeps(c)) {
      all += c;
    } else {
      const auto code = static_cast<unsigned char>(c);
      all += {'%', digits[code / 16], digits[code % 16]};
    }
  }
  return all;
}

} // namespace cli
