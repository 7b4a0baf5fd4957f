// SPDX-License-Identifier: MIT
#include "rules/kernel_pairs.hpp"

#include "protocol/jitter_plan.hpp"

#include <algorithm>
#include <utility>

namespace watch {

std::uint64_t rank_of(const Access& earlier, const Access& later, const Allocation& allocation) {
  const std::chrono::microseconds between =
      std::chrono::duration_cast<std::chrono::microseconds>(later.site.time - earlier.site.time);
  const auto time = static_cast<std::uint64_t>(std::max<std::int64_t>(between.count(), 0));
  const bool is_late = time > longest_hold_us;
  const bool is_inside = earlier.use != Use::pointer || later.use != Use::pointer;
  constexpr std::uint64_t most = (std::uint64_t{1} << 61U) - 1;
  return std::uint64_t{is_late} << 63U | std::uint64_t{allocation.is_filled} << 62U |
         std::uint64_t{is_inside} << 61U | std::min(time, most);
}

void KernelPairs::report_to(const Report& report) {
  for (auto& [places, pair] : std::exchange(pairs_, {})) {
    for (Finding* const each : {&pair.likeliest, &pair.last}) {
      each->certainty = Certainty::candidate;
      each->rank = pair.rank;
    }
    pair.likeliest.count = pair.count > 1 ? pair.count - 1 : 1;
    report(std::move(pair.likeliest));
    if (pair.count > 1) report(std::move(pair.last));
  }
}

} // namespace watch
