// SPDX-License-Identifier: MIT
// Planned faults: a layer between cuevent and a driver, simulated or real, in which calls fail as planned.
//
// A call that fails does nothing: the driver below never sees it. Calls that end or undo something are the
// exception. They take effect and then return the error, so that anything left behind is cuevent's fault.
// These calls are:
// - calls that destroy or release;
// - cuCtxPopCurrent;
// - cuThreadExchangeStreamCaptureMode back to the mode that the thread had first;
// - cuStreamEndCapture, which ends the capture and makes no graph.
#pragma once

#include <cuevent/driver.hpp>

#include <functional>
#include <optional>
#include <string_view>

namespace test {

/// The driver that `source` gives access to, with the layer in front of each function that cuevent
/// uses. A program can have only one.
cuevent::GetProcAddress with_faults(cuevent::GetProcAddress source);

/// Which call fails, and with which result.
struct Fault {
  enum class Extent { once, from_then_on };
  CUresult result = CUDA_SUCCESS;
  int call = 0;                   ///< 1 is the first call that counts; 0 means none
  std::string_view function = {}; ///< only calls of this function count; empty means all functions
  Extent extent = Extent::once;
  std::string_view spared = {};         ///< calls of this function neither fail nor count
  std::function<void()> meanwhile = {}; ///< runs inside the call, which then fails unless `result` is success
};

/// A fault and its effect. It is active while a FaultScope with it exists.
class FaultPlan {
public:
  FaultPlan() = default; ///< counts only
  explicit FaultPlan(const Fault& fault) : fault_(fault) {}

  const Fault& fault() const noexcept { return fault_; }
  /// The number of calls that have counted.
  int calls() const noexcept { return calls_; }
  /// The function of the first call that failed. Empty if none has.
  std::string_view struck() const noexcept { return struck_; }
  /// The last error that the driver itself returned.
  CUresult refusal() const noexcept { return refusal_; }

  /// \name For the layer
  /// @{
  /// The result with which the next call, a call of `function`, must fail. Success: the call does not fail.
  CUresult next(std::string_view function) noexcept;
  /// The driver's result of a call that was passed on.
  void answered(CUresult result) noexcept;
  /// Whether the exchange to this mode goes back to the thread's first mode.
  bool is_undoing(CUstreamCaptureMode mode) const noexcept { return mode == first_mode_; }
  /// The driver has exchanged the mode. This is the previous mode.
  void exchanged(CUstreamCaptureMode before) noexcept;
  /// @}

private:
  Fault fault_;
  int calls_ = 0;
  std::string_view struck_;
  CUresult refusal_ = CUDA_SUCCESS;
  std::optional<CUstreamCaptureMode> first_mode_;
};

/// Applies the plan to the calls of the thread that made this object, while the object exists.
/// Scopes nest: the innermost one applies.
class [[nodiscard]] FaultScope {
public:
  explicit FaultScope(FaultPlan& plan) noexcept;
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;
  ~FaultScope();

private:
  FaultPlan* before_;
};

/// Whether a fault is planned for the calling thread.
bool fault_is_planned() noexcept;

} // namespace test
