// SPDX-License-Identifier: MIT
#include "report/printable.hpp"

#include "core/name_text.hpp"

#include <cstdio>

namespace watch {

void print_text(const std::string& text) {
  const std::string shown = cuevent::printable_lines(text);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

} // namespace watch
