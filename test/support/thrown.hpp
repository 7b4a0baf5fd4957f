// SPDX-License-Identifier: MIT
// The texts of exceptions.
#pragma once

#include <cuevent/error.hpp>

#include <string>

/// The text of the exception that `work` throws.
template <class Work>
std::string thrown(const Work& work) {
  try {
    work();
  } catch (const cuevent::DriverError& error) {
    return error.what();
  }
  return "nothing was thrown";
}
