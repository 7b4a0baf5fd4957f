// SPDX-License-Identifier: MIT
// Durations of something that happens many times, without keeping each one. Inside the library
// only.
#pragma once

#include "core/bits.hpp"

#include <cuevent/version.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Counts durations in the buckets of HdrHistogram (Gil Tene, hdrhistogram.org): one bucket for
/// each nanosecond below 256, and 128 buckets of equal width for every power of two above. A bucket
/// is at most 1/128 of its values wide, so its middle is at most 0.4 % from each of its values. The
/// histogram takes 47 KiB and reaches 104 days: up to there a double counts every nanosecond. The last
/// bucket counts longer durations.
class DurationHistogram {
public:
  void add(double nanoseconds) noexcept {
    ++counts_[bucket_of(nanoseconds)];
    total_ += nanoseconds;
    min_ = count_ == 0 ? nanoseconds : std::min(min_, nanoseconds);
    max_ = std::max(max_, nanoseconds);
    ++count_;
  }

  std::uint64_t count() const noexcept { return count_; }
  double total() const noexcept { return total_; }
  double min() const noexcept { return min_; }
  double max() const noexcept { return max_; }

  /// The least duration that `percent` of all durations do not exceed, to the precision of a
  /// bucket. 0 if there are no durations.
  double percentile(double percent) const noexcept {
    const auto rank = static_cast<std::uint64_t>(std::ceil(static_cast<double>(count_) * percent / 100));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      seen += counts_[bucket];
      if (counts_[bucket] != 0 && seen >= rank) return std::clamp(middle_of(bucket), min_, max_);
    }
    return max_;
  }

private:
  static constexpr unsigned bits = 7; // of a value within its power of two
  static constexpr std::uint64_t width = 1 << bits;
  static constexpr unsigned largest = 53; // values have fewer bits than this
  static constexpr std::size_t buckets = (largest - bits) * width + width;

  static std::size_t bucket_of(double nanoseconds) noexcept {
    constexpr std::uint64_t most = (std::uint64_t{1} << largest) - 1;
    const std::uint64_t value = nanoseconds < static_cast<double>(most)
                                    ? static_cast<std::uint64_t>(std::max(nanoseconds, 0.0))
                                    : most;
    if (value < 2 * width) return value;
    const unsigned shift = width_of(value) - bits - 1;
    return shift * width + (value >> shift);
  }
  static double middle_of(std::size_t bucket) noexcept {
    const std::uint64_t shift = bucket < 2 * width ? 0 : bucket / width - 1;
    const auto low = static_cast<double>((bucket - shift * width) << shift);
    return low + static_cast<double>(std::uint64_t{1} << shift) / 2;
  }

  std::array<std::uint64_t, buckets> counts_{};
  std::uint64_t count_ = 0;
  double total_ = 0, min_ = 0, max_ = 0;
};

}} // namespace cuevent::CUEVENT_ABI
