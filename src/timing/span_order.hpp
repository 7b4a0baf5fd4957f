// SPDX-License-Identifier: MIT
// Whether the spans of one stream nest.
#pragma once

#include <cuevent/version.hpp>

#include <cstddef>
#include <limits>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A span in nanoseconds.
struct WholeSpan {
  long long begin = 0, end = 0;
};

/// Spans that nest, and come in the order of their ends.
class SpanOrder {
public:
  /// Adds the span and returns true if the span begins where the previous ones around and next to it have
  /// ended, and is around the ones inside it. Otherwise changes nothing.
  bool add(unsigned depth, WholeSpan span) {
    if (levels_.size() < depth + std::size_t{2}) levels_.resize(depth + std::size_t{2});
    if (span.end < end_ || span.begin > levels_[depth + std::size_t{1}].begin) return false;
    for (std::size_t i = 0; i <= depth; ++i)
      if (span.begin < levels_[i].end) return false;
    end_ = levels_[depth].end = span.end;
    for (std::size_t i = 0; i <= depth; ++i)
      if (span.begin < levels_[i].begin) levels_[i].begin = span.begin;
    for (std::size_t i = depth + std::size_t{1}; i < levels_.size(); ++i)
      levels_[i].begin = never;
    return true;
  }

private:
  static constexpr long long always = std::numeric_limits<long long>::min();
  static constexpr long long never = std::numeric_limits<long long>::max();
  struct Level {
    long long end = always;  // of the last span of this depth
    long long begin = never; // of the first span of this depth or deeper since the last span around it
  };
  std::vector<Level> levels_;
  long long end_ = always;
};

}} // namespace cuevent::CUEVENT_ABI
