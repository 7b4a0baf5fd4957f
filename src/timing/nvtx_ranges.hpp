// SPDX-License-Identifier: MIT
// The stages of a timer as ranges of NVTX. Internal to the library.
#pragma once

#include <cuevent/stage_timer.hpp>

struct nvtxStringRegistration_st;

namespace cuevent { inline namespace CUEVENT_ABI {

/// Begins and ends ranges that have the names of stages, or does nothing if `wanted` is none. The
/// ranges are NVTX's process ranges, because stages of different streams overlap on one thread.
class NvtxRanges {
public:
  explicit NvtxRanges(StageRanges wanted) noexcept : wanted_(wanted == StageRanges::nvtx) {}

  /// Whether the library was built with the headers of NVTX.
  static bool supported() noexcept;

  /// Gives a stage its name, unless it has one.
  void add(StageId stage, std::string_view name);
  /// Returns the id of the range, or 0 if there is none, or no tool.
  std::uint64_t begin(StageId stage) const noexcept { return wanted_ ? begin_range(stage) : 0; }
  void end(std::uint64_t range) const noexcept {
    if (range != 0) end_range(range);
  }

private:
  std::uint64_t begin_range(StageId stage) const noexcept;
  static void end_range(std::uint64_t range) noexcept;

  bool wanted_;
  std::vector<nvtxStringRegistration_st*> names_; // by StageId
};

}} // namespace cuevent::CUEVENT_ABI
