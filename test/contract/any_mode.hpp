// SPDX-License-Identifier: MIT
#pragma once

#include <cuevent/capture.hpp>

#include <catch2/generators/catch_generators.hpp>

/// Each mode of a capture, one after the other.
inline cuevent::CaptureMode any_mode() {
  using enum cuevent::CaptureMode;
  return GENERATE(global, per_thread, relaxed);
}
