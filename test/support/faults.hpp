// SPDX-License-Identifier: MIT
// Faults on purpose: a layer between cuevent and a driver, simulated or real, in which calls fail as planned.
//
// A call that fails does nothing, so that the driver below never sees it. The exceptions are those
// that end or undo something: they do that and then answer the error, so that what is left behind
// was left by cuevent. These are the calls that destroy or release, cuCtxPopCurrent, a
// cuThreadExchangeStreamCaptureMode back to the mode that the thread had before its first, and
// cuStreamEndCapture, which ends the capture and makes no graph.
#pragma once

#include <cuevent/driver.hpp>

#include <optional>
#include <string_view>

namespace test {

/// The driver that `source` gives access to, with the layer in front of each function that cuevent uses. One
/// in a program.
cuevent::GetProcAddress with_faults(cuevent::GetProcAddress source);

/// Which call fails, and with what.
struct Fault {
  enum class Extent { once, from_then_on };
  CUresult result = CUDA_SUCCESS;
  int call = 0;                   ///< of those that count, 1 is the first; 0: none
  std::string_view function = {}; ///< whose calls count; empty: those of all functions
  Extent extent = Extent::once;
  std::string_view spared = {}; ///< whose calls neither fail nor count
};

/// A fault, and what became of it. It counts while a FaultScope of it exists.
class FaultPlan {
public:
  FaultPlan() = default; ///< counts only
  explicit FaultPlan(const Fault& fault) : fault_(fault) {}

  const Fault& fault() const noexcept { return fault_; }
  /// The calls that have counted so far.
  int calls() const noexcept { return calls_; }
  /// The function whose call was the first to fail; empty if none has.
  std::string_view struck() const noexcept { return struck_; }
  /// The result with which the driver itself last refused a call.
  CUresult refusal() const noexcept { return refusal_; }

  /// \name For the layer
  /// @{
  /// What the next call, one of `function`, has to fail with; success: with nothing.
  CUresult next(std::string_view function) noexcept;
  /// What the driver answered to a call that was passed on.
  void answered(CUresult result) noexcept;
  /// Whether the exchange to this mode is one back to where the thread was.
  bool is_undoing(CUstreamCaptureMode mode) const noexcept { return mode == first_mode_; }
  /// The driver exchanged the mode, which was this before.
  void exchanged(CUstreamCaptureMode before) noexcept;
  /// @}

private:
  Fault fault_;
  int calls_ = 0;
  std::string_view struck_;
  CUresult refusal_ = CUDA_SUCCESS;
  std::optional<CUstreamCaptureMode> first_mode_;
};

/// While one exists, the plan is for the calls of the thread that made it, and of no other. They nest: the
/// innermost counts.
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
