// SPDX-License-Identifier: MIT
// Calls of the kernel, without the C library: it would treat some of them as points where a thread may be
// cancelled, and its state for the program's threads is not set up.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace watch {

inline int process_number() { return static_cast<int>(syscall(SYS_getpid)); }

inline unsigned thread_number() { return static_cast<unsigned>(syscall(SYS_gettid)); }

inline bool thread_lives(int process, unsigned thread) {
  return syscall(SYS_tgkill, process, thread, 0) == 0;
}

inline void sleep_microseconds(long microseconds) {
  const timespec time{0, microseconds * 1000};
  syscall(SYS_nanosleep, &time, nullptr);
}

/// Of the machine.
inline timespec time_since_start() {
  timespec time{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return time;
}

} // namespace watch
