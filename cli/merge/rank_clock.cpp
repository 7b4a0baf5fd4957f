// SPDX-License-Identifier: MIT
#include "merge/rank_clock.hpp"

#include <algorithm>
#include <cmath>

namespace cli {

void RankClock::add(const ClockLine& sample) {
  if (!samples_.empty()) {
    const ClockLine& before = samples_.back();
    const long long here = sample.here - before.here, reference = sample.reference - before.reference;
    if (here <= 0)
      throw RankLineError("the clock sample is not later than the previous one: add samples in their order");
    // The clocks of a computer never run this differently. Then one of them was set.
    const double error = static_cast<double>(sample.uncertainty) + static_cast<double>(before.uncertainty);
    if (std::abs(static_cast<double>(reference) - static_cast<double>(here)) >
        error + 0.01 * static_cast<double>(here))
      throw RankLineError("the clock sample contradicts the previous one: in between, this host's clock "
                          "counted " +
                          std::to_string(here) + " ns and rank 0's " + std::to_string(reference) +
                          " ns: use a clock that is never set, such as std::chrono::steady_clock");
    if (reference <= 0) return; // too close to the previous one to say more
  }
  if (samples_.size() == most_samples) {
    for (std::size_t i = 1; 2 * i < samples_.size(); ++i)
      samples_[i] = samples_[2 * i];
    samples_.resize(samples_.size() / 2);
  }
  samples_.push_back(sample);
}

long long RankClock::reference(long long here) const noexcept {
  if (samples_.empty()) return here;
  const auto after =
      std::upper_bound(samples_.begin(), samples_.end(), here,
                       [](long long time, const ClockLine& sample) { return time < sample.here; });
  if (after == samples_.begin()) return here + offset();
  const ClockLine& before = after[-1];
  if (after == samples_.end()) return here + (before.reference - before.here);
  // Whole nanoseconds of the interval, and a fraction of the difference: both are exact enough.
  const double share =
      static_cast<double>(here - before.here) / static_cast<double>(after->here - before.here);
  const auto between = static_cast<double>(after->reference - before.reference);
  return before.reference + std::llround(share * between);
}

long long RankClock::uncertainty(long long from, long long to) const noexcept {
  if (samples_.empty()) return 0;
  long long most = 0;
  for (const ClockLine& sample : samples_)
    most = std::max(most, sample.uncertainty);
  const long long outside = std::max({0LL, samples_.front().here - from, to - samples_.back().here});
  return most + std::llround(drift_limit * static_cast<double>(outside));
}

long long RankClock::offset() const noexcept {
  return samples_.empty() ? 0 : samples_.front().reference - samples_.front().here;
}

double RankClock::drift_ppm() const noexcept {
  if (samples_.size() < 2) return 0;
  const long long here = samples_.back().here - samples_.front().here;
  const long long reference = samples_.back().reference - samples_.front().reference;
  return static_cast<double>(reference - here) / static_cast<double>(here) * 1e6;
}

} // namespace cli
