// SPDX-License-Identifier: MIT
// What times after the end of work say about work that escaped. Inside the library only.
#pragma once

#include <cuevent/stage_report.hpp>

#include <algorithm>
#include <optional>

namespace cuevent { inline namespace CUEVENT_ABI {

/// After a copy to or from the host, the driver's event for a whole context can end late: by up to 11.2 us on
/// an H200 (driver 580.159.04, 2026-11-27).
inline constexpr DeviceTime most_own_delay(25'000);

/// By how much other work outlasted the measured stream. Both times count from the record after the work:
/// `all` is when everything of the context had ended, and `own` is a later record on the measured stream. It
/// comes after the part of the context's event that this stream has, so it is as late as the stream makes the
/// event. Another thread can submit to the stream in between, so at most `most_own_delay` is the stream's.
inline DeviceTime beyond_own(DeviceTime all, DeviceTime own) noexcept {
  return all - std::clamp(own, DeviceTime{}, most_own_delay);
}

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
