// SPDX-License-Identifier: MIT
// What a measurement says.
#include <cuevent/text.hpp>

#include <cuevent/measure.hpp>

#include "core/value_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

/// Four digits and the unit: "2.315 ms".
std::string time_text(DeviceTime time) {
  static constexpr struct {
    double nanoseconds;
    const char* name;
  } units[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
  const double count = time.count();
  const auto* unit = units;
  while (unit + 1 != std::end(units) && std::abs(count) >= 999.95 * unit->nanoseconds)
    ++unit;
  const double value = count / unit->nanoseconds;
  const int decimals = std::abs(value) >= 99.995 ? 1 : std::abs(value) >= 9.9995 ? 2 : 3;
  char text[40];
  std::snprintf(text, sizeof text, "%.*f %s", unit == units ? 0 : decimals, value, unit->name);
  return text;
}

std::string percent(double part) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

std::string of_all(std::size_t some, std::size_t all) {
  return std::to_string(some) + " of " + std::to_string(all) + " samples";
}

void add_sentence(std::string& text, const std::string& sentence) {
  if (!text.empty()) text += ' ';
  text += sentence;
}

} // namespace

std::string Measurement::doubt() const {
  if (samples.empty()) return "Nothing was measured.";
  DeviceTime longest_tail{};
  for (const MeasuredSample& sample : samples)
    if (sample.escaped) longest_tail = std::max(longest_tail, sample.tail);
  std::string text;
  if (escaped != 0)
    add_sentence(text, "Work escaped: in " + of_all(escaped, samples.size()) +
                           ", work was still running when the time ended, for up to " +
                           time_text(longest_tail) +
                           ". Nothing orders this work before the end on the measured stream.");
  if (disturbed != 0)
    add_sentence(text,
                 "Right before or after " + of_all(disturbed, samples.size()) +
                     ", other work of the context was running: another thread or the driver submitted it.");
  if (unheld != 0)
    add_sentence(
        text,
        "In " + of_all(unheld, samples.size()) +
            ", the device may have waited for the host: the work waits for the device, "
            "fills a launch queue, or takes longer to submit than hold_limit, or earlier work took longer.");
  if (end != MeasuredEnd::precise)
    add_sentence(text, "The samples disagree: the interval is " +
                           percent(median.count() > 0 ? (high - low) / median : 0) + " of the median when " +
                           (end == MeasuredEnd::time_limit ? "time_limit" : "most_samples") + " ends it.");
  if (drifts)
    add_sentence(text, "The times drift: they change by " + percent(trend) +
                           " from the first third of the samples to the last.");
  return text;
}

std::string Comparison::doubt() const {
  std::string text;
  const auto add = [&](const char* which, const Measurement& of) {
    if (!of.proved()) add_sentence(text, std::string(which) + ": " + of.doubt());
  };
  add("a", a);
  add("b", b);
  return text;
}

std::string to_string(const Measurement& measurement) {
  std::string text = time_text(measurement.median) + " (95 %: " + time_text(measurement.low) + " to " +
                     time_text(measurement.high) + "; " + std::to_string(measurement.samples.size()) +
                     " samples";
  if (measurement.late != 0) text += ", " + std::to_string(measurement.late) + " late ones left out";
  text += "), ";
  if (!measurement.proved()) return text + "not proved. " + measurement.doubt();
  return text + (measurement.scope == MeasuredScope::context ? "proved" : "proved for the blocking streams");
}

std::string to_string(const Comparison& comparison) {
  char ratio[80];
  std::snprintf(ratio, sizeof ratio, "%.4f (95 %%: %.4f to %.4f)", comparison.ratio, comparison.low,
                comparison.high);
  return std::string("ratio ") + ratio + ". a: " + to_string(comparison.a) +
         ". b: " + to_string(comparison.b);
}

std::string to_string(MeasuredScope scope) {
  return enumerator(scope, "MeasuredScope", {"context", "blocking_streams"});
}

std::string to_string(MeasuredEnd end) {
  return enumerator(end, "MeasuredEnd", {"precise", "time_limit", "most_samples"});
}

}} // namespace cuevent::CUEVENT_ABI
