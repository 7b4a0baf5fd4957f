// SPDX-License-Identifier: MIT
// File descriptors that wake a thread.
#pragma once

#include "testbed.hpp"

#include <descriptor.hpp>

#include <cstdlib>
#include <ctime>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace sleeping {

class WakingDescriptor : public Descriptor {
public:
  using Descriptor::Descriptor;
  /// Makes the descriptor unreadable, unless it already is.
  void clear() const {
    std::uint64_t count = 0;
    (void)!read(*this, &count, sizeof count);
  }
};

class Signal : public WakingDescriptor {
public:
  Signal() : WakingDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void set() const {
    const std::uint64_t one = 1;
    if (write(*this, &one, sizeof one) != sizeof one) std::abort();
  }
  /// For cuLaunchHostFunc.
  static void CUDA_CB set_signal(void* signal) { static_cast<const Signal*>(signal)->set(); }
};

class Timer : public WakingDescriptor {
public:
  Timer() : WakingDescriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}
  /// Readable at `time`.
  void set(Nanoseconds time) const {
    const itimerspec when{{0, 0}, {time / 1'000'000'000, time % 1'000'000'000}};
    checked(timerfd_settime(*this, TFD_TIMER_ABSTIME, &when, nullptr));
  }
};

class Epoll : public Descriptor {
public:
  Epoll() : Descriptor(epoll_create1(EPOLL_CLOEXEC)) {}
  void add(int descriptor) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    checked(epoll_ctl(*this, EPOLL_CTL_ADD, descriptor, &event));
  }
  /// Sleeps until a descriptor is readable.
  void wait() const {
    epoll_event event{};
    checked(epoll_wait(*this, &event, 1, 2'000));
  }
};

/// Sleeps until an absolute time.
inline void sleep_until(Nanoseconds time) {
  const timespec when{time / 1'000'000'000, time % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

} // namespace sleeping
