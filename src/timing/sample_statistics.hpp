// SPDX-License-Identifier: MIT
// The statistics of a measurement, which assume nothing about how the times are distributed. Inside the
// library only.
#pragma once

#include <cuevent/version.hpp>

#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A median and its 95 % confidence interval.
struct MedianInterval {
  double low = 0, median = 0, high = 0;
};

/// The value below which `part` of the values lie, between two values if necessary. `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double part) noexcept;

/// Of values in any order, at least one. The interval's ends are two of the values. For less than 6 values,
/// 95 % cannot be reached, and all values are in the interval.
MedianInterval median_interval(std::vector<double> values);

/// The number of values that are more than 1.5 interquartile ranges below the first quartile or above the
/// third one (Tukey's fences).
std::size_t outliers(const std::vector<double>& sorted) noexcept;

/// How the values change from the first third to the last.
struct Drift {
  double trend = 0;   ///< the difference of the medians, as part of the median of all
  bool clear = false; ///< the intervals of the two medians have no value in common
};
Drift drift(const std::vector<double>& in_order);

}} // namespace cuevent::CUEVENT_ABI
