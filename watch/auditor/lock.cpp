// SPDX-License-Identifier: MIT
#include "auditor/lock.hpp"

#include "auditor/kernel_calls.hpp"

namespace watch {

Locked::Locked(Lock& lock) : lock_(lock) {
  for (unsigned tries = 0; lock_.exchange(1, std::memory_order_acquire) != 0; ++tries)
    if (tries > 100) sleep_microseconds(20);
}

TryLocked::TryLocked(Lock& lock, long patience_us) : lock_(lock), holds_(true) {
  constexpr long pause_us = 20;
  for (unsigned tries = 0; lock_.exchange(1, std::memory_order_acquire) != 0; ++tries) {
    if (tries <= 100) continue;
    if ((patience_us -= pause_us) < 0) {
      holds_ = false;
      return;
    }
    sleep_microseconds(pause_us);
  }
}

} // namespace watch
