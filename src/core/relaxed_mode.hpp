// SPDX-License-Identifier: MIT
// Relaxed capture mode for a scope. Internal to the library.
#pragma once

#include <cuevent/driver.hpp>
#include <cuevent/error.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Sets the calling thread's capture mode to relaxed from enter() until leave() or destruction.
/// The thread keeps its own mode before enter(). In relaxed mode, a query or an allocation does
/// not harm captures of other threads.
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

  bool entered() const noexcept { return entered_; }

private:
  const DriverTable& table_;
  CUstreamCaptureMode mode_{}; // the mode to restore, while entered
  bool entered_ = false;
};

}} // namespace cuevent::CUEVENT_ABI
