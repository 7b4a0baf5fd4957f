// SPDX-License-Identifier: MIT
// What a StageTimer has measured so far. Inside the library only.
#pragma once

#include "timing/duration_histogram.hpp"

#include <cuevent/stage_timer.hpp>

#include <deque>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The last of many elements, in a ring of fixed size.
template <class Element>
class KeptLast {
public:
  explicit KeptLast(std::size_t most) : ring_(most) {}

  void add(const Element& element) noexcept {
    if (!ring_.empty()) ring_[count_++ % ring_.size()] = element;
  }
  void clear() noexcept { count_ = 0; }

  /// The oldest first.
  std::vector<Element> in_order() const {
    if (count_ <= ring_.size()) return {ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(count_)};
    const auto oldest = ring_.begin() + static_cast<std::ptrdiff_t>(count_ % ring_.size());
    std::vector<Element> all(oldest, ring_.end());
    all.insert(all.end(), ring_.begin(), oldest);
    return all;
  }

private:
  std::vector<Element> ring_;
  std::uint64_t count_ = 0; // of all elements since the last clear()
};

/// The stages with their statistics, and the last spans and waits.
class StageLog {
public:
  /// Keeps that many spans, and as many waits.
  explicit StageLog(std::size_t most) : spans_(most), waits_(most) {}

  /// The stage of that name, a new one if there is none.
  StageId stage(std::string_view name);
  bool knows(StageId stage) const noexcept { return static_cast<std::size_t>(stage) < statistics_.size(); }

  void add(const StageSpan& span) noexcept;
  void add(const StageWait& wait) noexcept { waits_.add(wait); }
  void drop(StageId stage) noexcept { ++statistics_[static_cast<std::size_t>(stage)].dropped; }

  /// Fills in the stages, the spans, and the waits between these spans.
  void write(StageReport& report) const;
  void clear() noexcept; // the stages stay

private:
  struct Statistics {
    std::string name;
    DurationHistogram durations{};
    std::uint64_t dropped = 0, escaped = 0, unknown = 0;
  };

  std::deque<Statistics> statistics_; // by StageId
  KeptLast<StageSpan> spans_;
  KeptLast<StageWait> waits_;
};

}} // namespace cuevent::CUEVENT_ABI
