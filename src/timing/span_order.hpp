// SPDX-License-Identifier: MIT
// The spans of one stream, so that they nest and do not overlap.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

namespace cuevent {

/// A span in nanoseconds.
struct WholeSpan {
  long long begin = 0, end = 0;
};

/// Neighbours should share a time, but each time was rounded to a float and may be some nanoseconds off.
/// After a calibration, later times can be off by a few microseconds more.
class SpanOrder {
public:
  /// Takes the spans in the order of their ends, and returns them in order: each one begins where the
  /// previous ones around and next to it have ended, and is around the ones inside it.
  WholeSpan put_in_order(unsigned depth, WholeSpan span) {
    if (levels_.size() < depth + 2) levels_.resize(depth + 2);
    for (unsigned i = 0; i <= depth; ++i)
      if (levels_[i].end) span.begin = std::max(span.begin, *levels_[i].end);
    if (const auto& inside = levels_[depth + 1].begin) span.begin = std::min(span.begin, *inside);
    span.end = std::max({span.end, span.begin, end_.value_or(span.begin)});

    end_ = levels_[depth].end = span.end;
    for (unsigned i = 0; i <= depth; ++i)
      levels_[i].begin = std::min(span.begin, levels_[i].begin.value_or(span.begin));
    for (std::size_t i = depth + 1; i < levels_.size(); ++i)
      levels_[i].begin.reset();
    return span;
  }

private:
  struct Level {
    std::optional<long long> end;   // of the last span of this depth
    std::optional<long long> begin; // of the first span of this depth or deeper since the last span around it
  };
  std::vector<Level> levels_;
  std::optional<long long> end_;
};

} // namespace cuevent
