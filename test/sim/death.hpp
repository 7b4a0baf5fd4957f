// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <functional>
#include <string>

/// How a child process ended that did something in our place.
struct Death {
  bool aborted = false;
  bool crashed = false; ///< by SIGSEGV
  std::string report;   ///< what it said on stderr
  bool says(const std::string& text) const { return report.find(text) != std::string::npos; }
};

Death death_of(const std::function<void()>& body);
