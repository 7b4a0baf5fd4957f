// SPDX-License-Identifier: MIT
#include "report/printable.hpp"

#include "core/name_text.hpp"

#include <cstdio>
#include <string_view>

namespace watch {

// The program chooses names of threads, files and functions: none may speak to the terminal.
std::string printable(const std::string& text) {
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t size = cuevent::character_size(rest);
    const auto first = static_cast<unsigned char>(rest[0]);
    if ((first < 0x20 && first != '\n') || first == 0x7F) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x", unsigned{first});
      result += code;
    } else if (size == 0 || (first == 0xC2 && static_cast<unsigned char>(rest[1]) < 0xA0)) {
      result += '?'; // the controls U+0080 to U+009F are single bytes for a terminal without UTF-8
    } else {
      result += rest.substr(0, size);
    }
    rest.remove_prefix(size == 0 ? 1 : size);
  }
  return result;
}

void print_text(const std::string& text) {
  const std::string shown = printable(text);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

} // namespace watch
