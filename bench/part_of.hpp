// SPDX-License-Identifier: MIT
// What measured values have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

/// The value that this part of the values does not exceed. 0 if there are none.
inline double part_of(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

inline double median(std::vector<double> values) { return part_of(std::move(values), 0.5); }
