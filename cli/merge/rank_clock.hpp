// SPDX-License-Identifier: MIT
// The clock of a rank's host on the clock of rank 0's host.
#pragma once

#include "merge/rank_line.hpp"

#include <cstddef>
#include <vector>

namespace cli {

/// Interpolates between the samples. Before the first sample and after the last one, the offset stays the
/// same, and the uncertainty grows by `drift_limit`.
class RankClock {
public:
  static constexpr double drift_limit = 100e-6; // quartz clocks of computers differ by less
  static constexpr std::size_t most_samples = 1024;

  /// Adds a sample that is later than all others. If there are too many, keeps every second one. Throws
  /// RankLineError if the sample is not later, or contradicts the previous one.
  void add(const ClockLine& sample);

  bool empty() const noexcept { return samples_.empty(); }
  std::size_t size() const noexcept { return samples_.size(); }

  /// Never decreases when `here` increases. Without samples: `here`.
  long long reference(long long here) const noexcept;
  /// The largest error of reference(), either way, for all times between these two.
  long long uncertainty(long long from, long long to) const noexcept;
  /// At the first sample: rank 0's clock minus this one.
  long long offset() const noexcept;
  /// By how much rank 0's clock runs faster, in parts per million. 0 if there is one sample only.
  double drift_ppm() const noexcept;

private:
  std::vector<ClockLine> samples_; // by `here`
};

} // namespace cli
