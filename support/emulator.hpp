// SPDX-License-Identifier: MIT
// Programs that were built for another machine than this one.
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

/// The words that go before the path of a program to start it: none, or in a cross build the emulator, which
/// Meson names to each test.
inline std::vector<std::string> emulator() {
  const char* const named = std::getenv("MESON_EXE_WRAPPER");
  std::istringstream text(named == nullptr ? "" : named);
  std::vector<std::string> words;
  for (std::string word; text >> word;)
    words.push_back(word);
  return words;
}
