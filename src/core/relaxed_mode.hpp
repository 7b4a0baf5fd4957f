// SPDX-License-Identifier: MIT
// Relaxed capture mode for a scope. Inside the library only.
#pragma once

#include <cuevent/driver.hpp>

namespace cuevent {

/// The calling thread's capture mode: its own at first, and relaxed, in which a query or an allocation harms no
/// capture of others, from enter() to leave() or the end.
class RelaxedMode {
public:
  explicit RelaxedMode(const DriverTable& table) noexcept : table_(table) {}
  RelaxedMode(const RelaxedMode&) = delete;
  RelaxedMode& operator=(const RelaxedMode&) = delete;
  ~RelaxedMode() { leave(); }

  CUresult enter() noexcept {
    if (entered_) return CUDA_SUCCESS;
    mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
    const CUresult result = table_.cuThreadExchangeStreamCaptureMode_v10010(&mode_);
    entered_ = result == CUDA_SUCCESS;
    return result;
  }
  void leave() noexcept {
    if (!entered_) return;
    entered_ = false;
    const CUresult result = table_.cuThreadExchangeStreamCaptureMode_v10010(&mode_);
    if (result != CUDA_SUCCESS) report_error(result, "cuThreadExchangeStreamCaptureMode");
  }

private:
  const DriverTable& table_;
  CUstreamCaptureMode mode_{}; // while entered: the one to go back to
  bool entered_ = false;
};

} // namespace cuevent
