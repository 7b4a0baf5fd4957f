// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <functional>
#include <string>

/// How a child process ended.
struct Death {
  bool aborted = false;
  bool crashed = false; ///< by SIGSEGV
  std::string report;   ///< what the child wrote to stderr
  bool says(const std::string& text) const { return report.find(text) != std::string::npos; }
};

Death death_of(const std::function<void()>& body);

/// Skips a test in whose forked child the driver starts threads, where that ends the child.
void skip_without_threads_in_children();
