// SPDX-License-Identifier: MIT
// A program with libcuevent.a contains only the exception classes that it names. The one that it names,
// CLASS, catches what the class stands for, with the same text and data as in a program with all classes.
#include <cuevent/driver_event.hpp>

#include <cstdio>
#include <string_view>

int main() {
  cuevent::DriverEvent empty;
  try {
    empty.record(nullptr);
  } catch (const cuevent::CLASS& error) {
    std::puts(error.what());
    const bool same = error.cause() == cuevent::ErrorCause::empty_event &&
                      error.result() == CUDA_ERROR_INVALID_HANDLE &&
                      error.advice() == "make or assign an event first" &&
                      std::string_view(error.what()).find("CUDA_ERROR_INVALID_HANDLE (400)") == 15;
    return same ? 0 : 1;
  }
}
