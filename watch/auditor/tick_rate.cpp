// SPDX-License-Identifier: MIT
#include "auditor/tick_rate.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/state.hpp"
#include "protocol/ticks.hpp"

namespace watch {

namespace {

constexpr std::uint64_t long_enough_ns = 1'000'000; // for a rate that is kept

} // namespace

std::uint64_t ticks_in(std::uint64_t microseconds) {
  std::uint64_t rate = state.tick_rate.load(std::memory_order_relaxed);
  if (rate == 0) {
    const timespec now = time_since_start();
    const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    const auto elapsed_ns = static_cast<std::uint64_t>(now_ns - region->first_time) + 1;
    const std::uint64_t elapsed = ticks() - region->first_tick;
    rate = static_cast<std::uint64_t>(static_cast<double>(elapsed) / static_cast<double>(elapsed_ns) *
                                      static_cast<double>(1U << 20U)) +
           1;
    if (elapsed_ns > long_enough_ns) state.tick_rate.store(rate, std::memory_order_relaxed);
  }
  return (microseconds * 1000 * rate) >> 20U;
}

} // namespace watch
