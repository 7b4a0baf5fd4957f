// SPDX-License-Identifier: MIT
// A clock that takes a few nanoseconds to read. Its rate is found by reading it twice.
#pragma once

#include <cstdint>

namespace watch {

inline std::uint64_t ticks() {
#if defined __x86_64__
  return __builtin_ia32_rdtsc();
#elif defined __aarch64__
  std::uint64_t value = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
#error "cuevent watch runs on x86-64 and arm64 only: build with -Dcli=disabled"
#endif
}

/// Record::time counts in steps of 2^coarse_shift ticks, which is less than a millisecond.
#if defined __aarch64__
inline constexpr unsigned coarse_shift = 14; // a tick is 1 ns on new processors, and up to 42 ns on old ones
#else
inline constexpr unsigned coarse_shift = 20;
#endif

} // namespace watch
