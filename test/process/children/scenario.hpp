// SPDX-License-Identifier: MIT
// Scenarios: what a process does until it ends, checked from inside where it can be. The rest, its output and
// its exit code, is for whoever started it to judge.
#pragma once

#include <cuevent/driver_event.hpp>

#include <string>
#include <vector>

namespace process {

struct Scenario {
  const char* name;
  void (*run)();
};

// One function for each noun; each has a file of its own.
std::vector<Scenario> completion_queue_scenarios();
std::vector<Scenario> endless_kernel_scenarios();
std::vector<Scenario> error_hook_scenarios();
std::vector<Scenario> exit_scenarios();
std::vector<Scenario> fault_scenarios();
std::vector<Scenario> fork_scenarios();
std::vector<Scenario> full_queue_scenarios();
std::vector<Scenario> lost_context_scenarios();
std::vector<Scenario> timeline_fence_scenarios();

/// Says on standard error what was expected in vain.
void expect(bool holds, const std::string& what);
/// Whether something was.
bool disappointed();

/// The call has to throw an Error, and is given it to look at.
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

/// Names what is done next: said should it never return.
void step(const char* what);

} // namespace process
