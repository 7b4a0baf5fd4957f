// SPDX-License-Identifier: MIT
// The manual page and the completions of shells, made from the description of the command line.
#pragma once

#include "choices.hpp"

#include <string>

namespace CLI {
class App;
}

namespace cli {

/// For man(1).
std::string manual_page(const CLI::App& app, const Choices& choices, const std::string& version);

/// A script for the shell: bash, zsh or fish.
std::string completions(const CLI::App& app, const Choices& choices, const std::string& shell);

} // namespace cli
