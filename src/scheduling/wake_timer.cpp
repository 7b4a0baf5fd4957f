// SPDX-License-Identifier: MIT
#include "scheduling/wake_timer.hpp"

#include <chrono>
#include <sys/timerfd.h>
#include <unistd.h>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

void ring_timer(int descriptor) noexcept {
  const itimerspec past{{0, 0}, {0, 1}}; // 1 ns after the clock began
  timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &past, nullptr);
}

} // namespace

WakeTimer::~WakeTimer() {
  if (is_open()) close(descriptor_.load(std::memory_order_acquire));
}

CUresult WakeTimer::open(int& descriptor) noexcept {
  int current = descriptor_.load(std::memory_order_acquire);
  if (current < 0) {
    const int made = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (made < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    ring_timer(made);
    if (descriptor_.compare_exchange_strong(current, made, std::memory_order_acq_rel,
                                            std::memory_order_acquire))
      current = made;
    else
      close(made); // another thread was first
  }
  descriptor = current;
  return CUDA_SUCCESS;
}

long long WakeTimer::now() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void WakeTimer::set(long long nanoseconds) noexcept {
  constexpr long long second = 1'000'000'000;
  const itimerspec when{{0, 0}, {nanoseconds / second, nanoseconds % second}};
  timerfd_settime(descriptor_.load(std::memory_order_acquire), 0, &when, nullptr);
}

void WakeTimer::ring() noexcept {
  if (is_open()) ring_timer(descriptor_.load(std::memory_order_acquire));
}

}} // namespace cuevent::CUEVENT_ABI
