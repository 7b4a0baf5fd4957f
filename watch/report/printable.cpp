// SPDX-License-Identifier: MIT
#include "report/printable.hpp"

#include "core/name_text.hpp"
#include "report/terminal.hpp"

#include <cstdio>

namespace watch {

namespace {

bool has_colours = false;

} // namespace

void print_with_colours() { has_colours = true; }

void print_text(const std::string& text) {
  std::string shown = cuevent::printable_lines(text);
  if (has_colours) shown = coloured(shown);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

} // namespace watch
