// SPDX-License-Identifier: MIT
// How a program ends that needs a driver.
#pragma once

#include <cuevent/error.hpp>

#include <cstdio>
#include <exception>

/// Runs the program, and returns its exit code. Without a driver, prints why and returns 77, which means
/// skipped. After another exception, prints the error and returns 1.
template <class Program>
int exit_code(Program program) {
  try {
    return program();
  } catch (const cuevent::DriverUnavailable& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 77;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
