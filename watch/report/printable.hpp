// SPDX-License-Identifier: MIT
// What the command says on standard error.
#pragma once

#include <string>

namespace watch {

/// Prints the text to standard error, without what a terminal takes for commands: the program chooses names
/// of threads, files and functions. Line breaks stay.
void print_text(const std::string& text);

/// From here on, with colours.
void print_with_colours();

} // namespace watch
