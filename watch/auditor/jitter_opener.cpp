// SPDX-License-Identifier: MIT
#include "auditor/jitter_opener.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/lone_thread.hpp"
#include "auditor/recorder.hpp"
#include "auditor/state.hpp"

#include <linux/futex.h>
#include <sys/prctl.h>

namespace watch {

namespace {

void* run(void*) {
  syscall(SYS_prctl, PR_SET_NAME, "cuevent-jitter", 0L, 0L, 0L);
  constexpr std::int64_t look_interval_us = 100'000;
  for (std::int64_t next_look = 0;;) {
    const std::uint32_t closed = cleared_by_fork->held.closed.load(std::memory_order_acquire);
    if (const std::int64_t now = microseconds_now(); now >= next_look) {
      if (has_lost_reader()) break;
      next_look = now + look_interval_us;
    }
    if (const std::int64_t next = open_words(false); next != 0) {
      const std::int64_t left = next - microseconds_now();
      sleep_microseconds(left < 1 ? 1 : left);
      continue;
    }
    const timespec tenth{0, 100'000'000};
    syscall(SYS_futex, &cleared_by_fork->held.closed, FUTEX_WAIT, closed, &tenth, nullptr, 0L);
    if (cleared_by_fork->held.closed.load(std::memory_order_acquire) != closed) continue;
    if (is_only_thread()) break;
  }
  end_holds();
  return nullptr;
}

void at_exit(void*) { end_holds(); }

} // namespace

void start_opener() {
  if (cleared_by_fork->held.started.exchange(1, std::memory_order_seq_cst) != 0) return;
  if (!start_thread(&run)) return end_holds();
  if (state.program_functions.call_at_exit != nullptr)
    state.program_functions.call_at_exit(&at_exit, nullptr, nullptr);
}

void wake_opener() {
  cleared_by_fork->held.closed.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &cleared_by_fork->held.closed, FUTEX_WAKE, 1, nullptr, nullptr, 0L);
}

void end_holds() {
  cleared_by_fork->held.ended.store(1, std::memory_order_seq_cst);
  open_words(true);
}

} // namespace watch
