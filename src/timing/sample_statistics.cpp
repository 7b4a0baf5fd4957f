// SPDX-License-Identifier: MIT
#include "timing/sample_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace cuevent { inline namespace CUEVENT_ABI {

double quantile(const std::vector<double>& sorted, double part) noexcept {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

namespace {

/// The rank of the interval's lower end, from 1. The rank of its upper end is the same from above. The number
/// of values below the true median has a binomial distribution.
std::size_t rank_of_low(std::size_t count) noexcept {
  constexpr double tail = 0.025;
  constexpr std::size_t exact = 1000; // 2 to the power of -1000 is a double
  const auto all = static_cast<double>(count);
  if (count > exact) return static_cast<std::size_t>(all / 2 - 0.98 * std::sqrt(all)); // 1.96 deviations
  double probability = std::pow(0.5, all), sum = 0;
  std::size_t below = 0;
  for (; sum + probability <= tail; ++below) {
    sum += probability;
    probability *= (all - static_cast<double>(below)) / static_cast<double>(below + 1);
  }
  return std::max<std::size_t>(below, 1);
}

} // namespace

MedianInterval median_interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t rank = rank_of_low(values.size());
  return {values[rank - 1], quantile(values, 0.5), values[values.size() - rank]};
}

std::size_t outliers(const std::vector<double>& sorted) noexcept {
  const double first = quantile(sorted, 0.25), third = quantile(sorted, 0.75);
  const double far = 1.5 * (third - first);
  const auto is_outlier = [&](double value) { return value < first - far || value > third + far; };
  return static_cast<std::size_t>(std::count_if(sorted.begin(), sorted.end(), is_outlier));
}

Drift drift(const std::vector<double>& in_order) {
  constexpr std::size_t least = 6; // a third with less has no 95 % interval
  const std::size_t third = in_order.size() / 3;
  if (third < least) return {};
  const auto begin = in_order.begin(), end = in_order.end();
  const auto distance = static_cast<std::ptrdiff_t>(third);
  const MedianInterval first = median_interval({begin, begin + distance});
  const MedianInterval last = median_interval({end - distance, end});
  const double all = median_interval(in_order).median;
  return {all > 0 ? (last.median - first.median) / all : 0, first.high < last.low || last.high < first.low};
}

}} // namespace cuevent::CUEVENT_ABI
