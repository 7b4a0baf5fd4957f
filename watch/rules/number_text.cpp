// SPDX-License-Identifier: MIT
#include "rules/number_text.hpp"

#include <cstdio>

namespace watch {

std::string number_text(unsigned long number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3;)
    text.insert(place -= 3, 1, ',');
  return text;
}

std::string time_text(std::chrono::nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  char text[40];
  if (ns >= 99.95e9) return number_text(static_cast<unsigned long>(ns / 1e9)) + " s";
  if (ns >= 0.9995e9)
    std::snprintf(text, sizeof text, "%.1f s", ns / 1e9);
  else if (ns >= 0.9995e6)
    std::snprintf(text, sizeof text, "%.0f ms", ns / 1e6);
  else
    std::snprintf(text, sizeof text, "%.0f us", ns / 1e3);
  return text;
}

} // namespace watch
