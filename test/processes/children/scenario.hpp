// SPDX-License-Identifier: MIT
// Scenarios: what a process does until it ends. A scenario checks what it can from inside. The
// program that started it checks its output and its exit code.
#pragma once

#include <cuevent/driver_event.hpp>

#include <string>
#include <vector>

namespace process {

struct Scenario {
  const char* name;
  void (*run)();
};

// One function per subject, each in a file of its own.
std::vector<Scenario> completion_queue_scenarios();
std::vector<Scenario> error_hook_scenarios();
std::vector<Scenario> exit_scenarios();
std::vector<Scenario> hang_scenarios();
std::vector<Scenario> semaphore_guard_scenarios();
std::vector<Scenario> timeline_fence_scenarios();

/// Prints a failed expectation on standard error.
void expect(bool holds, const std::string& what);
/// Whether an expectation has failed.
bool disappointed();

/// Checks that the call throws an Error, and passes it to `look`.
template <class Error, class Call>
void expect_throw(
    Call call, const std::string& what, void (*look)(const Error&) = [](const Error&) {}) {
  try {
    call();
    expect(false, what + " throws");
  } catch (const Error& error) {
    look(error);
  } catch (const std::exception& error) {
    expect(false, what + " throws another exception than: " + error.what());
  }
}

/// Names the next step. The name is printed if that step never returns.
void step(const char* what);

} // namespace process
