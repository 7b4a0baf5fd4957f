// SPDX-License-Identifier: MIT
// What times after the end of work say about work that escaped. Inside the library only.
#pragma once

#include <cuevent/stage_report.hpp>

#include <algorithm>
#include <optional>

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

}} // namespace cuevent::CUEVENT_ABI
