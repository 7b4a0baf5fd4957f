// SPDX-License-Identifier: MIT
#include "timing/stage_log.hpp"

#include "core/erase_where.hpp"

#include <unordered_set>

namespace cuevent { inline namespace CUEVENT_ABI {

StageId StageLog::stage(std::string_view name) {
  const auto found = std::find_if(statistics_.begin(), statistics_.end(),
                                  [&](const Statistics& each) { return each.name == name; });
  const auto index = static_cast<std::uint32_t>(found - statistics_.begin());
  if (found == statistics_.end()) statistics_.push_back({.name = std::string(name)});
  return StageId(index);
}

void StageLog::add(const StageSpan& span) noexcept {
  Statistics& statistics = statistics_[static_cast<std::size_t>(span.stage)];
  statistics.durations.add((span.end - span.begin).count());
  statistics.escaped += span.escaped == SpanEscape::yes ? 1 : 0;
  statistics.unknown += span.escaped == SpanEscape::unknown ? 1 : 0;
  spans_.add(span);
}

void StageLog::write(StageReport& report) const {
  for (const Statistics& each : statistics_) {
    const DurationHistogram& durations = each.durations;
    const auto count = durations.count();
    report.stages.push_back(
        {.name = each.name,
         .count = count,
         .dropped = each.dropped,
         .escaped = each.escaped,
         .unknown = each.unknown,
         .total = DeviceTime(durations.total()),
         .min = DeviceTime(durations.min()),
         .mean = DeviceTime(count == 0 ? 0 : durations.total() / static_cast<double>(count)),
         .p50 = DeviceTime(durations.percentile(50)),
         .p90 = DeviceTime(durations.percentile(90)),
         .p99 = DeviceTime(durations.percentile(99)),
         .max = DeviceTime(durations.max())});
  }
  report.spans = spans_.in_order();
  report.waits = waits_.in_order();
  std::unordered_set<std::uint64_t> numbers;
  for (const StageSpan& span : report.spans)
    numbers.insert(span.number);
  erase_where(report.waits, [&](const StageWait& wait) {
    return numbers.count(wait.from) == 0 || numbers.count(wait.to) == 0;
  });
}

void StageLog::clear() noexcept {
  for (Statistics& each : statistics_) {
    each.durations = {};
    each.dropped = each.escaped = each.unknown = 0;
  }
  spans_.clear();
  waits_.clear();
}

}} // namespace cuevent::CUEVENT_ABI
