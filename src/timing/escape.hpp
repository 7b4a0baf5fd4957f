// SPDX-License-Identifier: MIT
// What times after the end of work say about work that escaped. Inside the library only.
#pragma once

#include <cuevent/measure.hpp>
#include <cuevent/stage_report.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// How late an event of the context, or one in a side stream, may be without a meaning. Nothing holds back a
/// running loop, so this is more than the margin of a measurement.
inline constexpr double escape_margin = 20'000; // ns

/// Whether work that was submitted during a span outlasted it. `before` and `after` are when everything had
/// ended that was submitted to the context until the span's begin and until its end, if that is known.
inline SpanEscape escape_of(double end, std::optional<double> before, std::optional<double> after) noexcept {
  if (!after) return SpanEscape::unknown;
  if (*after <= end + escape_margin) return SpanEscape::no;
  if (before && *after > std::max(end, *before) + escape_margin) return SpanEscape::yes;
  return SpanEscape::unknown; // earlier work outlasted the span, and hides what else did
}

/// Removes the samples of a measurement that a device ended late by itself, and returns how many there were.
/// An H200 did so by 7 to 8 us in one of a thousand samples. Work that escapes does so more often, or for
/// longer: then nothing is removed.
inline std::size_t leave_out_late(std::vector<MeasuredSample>& samples) {
  constexpr std::size_t fewest = 20, rare = 100;
  constexpr DeviceTime latest(16'000);
  std::size_t escaped = 0;
  for (const MeasuredSample& sample : samples) {
    if (sample.escaped && sample.tail > latest) return 0;
    escaped += sample.escaped ? 1 : 0;
  }
  if (samples.size() < fewest || escaped > std::max<std::size_t>(1, samples.size() / rare)) return 0;
  const auto is_late = [](const MeasuredSample& sample) { return sample.escaped; };
  samples.erase(std::remove_if(samples.begin(), samples.end(), is_late), samples.end());
  return escaped;
}

}} // namespace cuevent::CUEVENT_ABI
