// SPDX-License-Identifier: MIT
#include "auditor/tick_rate.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/recorder.hpp"
#include "protocol/ticks.hpp"

namespace watch {

namespace {

constexpr std::uint64_t long_enough_ns = 1'000'000; // for a rate that is kept

std::atomic<std::uint64_t> kept{0}; // ticks in 2^20 ns, or 0

} // namespace

std::uint64_t ticks_in(std::uint64_t microseconds) {
  std::uint64_t rate = kept.load(std::memory_order_relaxed);
  if (rate == 0) {
    const timespec now = time_since_start();
    const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    const auto elapsed_ns = static_cast<std::uint64_t>(now_ns - region->first_time) + 1;
    const std::uint64_t elapsed = ticks() - region->first_tick;
    rate = static_cast<std::uint64_t>(static_cast<double>(elapsed) / static_cast<double>(elapsed_ns) *
                                      static_cast<double>(1U << 20U)) +
           1;
    if (elapsed_ns > long_enough_ns) kept.store(rate, std::memory_order_relaxed);
  }
  return (microseconds * 1000 * rate) >> 20U;
}

} // namespace watch
