// SPDX-License-Identifier: MIT
// What the command says on standard error.
#pragma once

#include <string>

namespace watch {

/// The text without what a terminal takes for commands. Line breaks stay.
std::string printable(const std::string& text);

/// Prints `printable(text)` to standard error.
void print_text(const std::string& text);

} // namespace watch
