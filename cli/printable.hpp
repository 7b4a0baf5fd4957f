// SPDX-License-Identifier: MIT
// Text from a file, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace cli {

/// Each control character becomes a question mark, so that the text stays in its line and cannot begin an
/// escape sequence. Other UTF-8 stays as it is.
inline std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_long = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0; // U+0080 to U+009F
    const bool is_control = is_long || byte(i) < ' ' || byte(i) == 0x7f;
    out += is_control ? '?' : text[i];
    if (is_long) ++i;
  }
  return out;
}

} // namespace cli
