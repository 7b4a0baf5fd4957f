// SPDX-License-Identifier: MIT
#include "descriptors.hpp"
#include "sleeping.hpp"

#include <poll.h>

namespace sleeping {

namespace {

void row(const char* name, Nanoseconds length, int count, void (*sleep)(Nanoseconds length)) {
  Distribution late;
  for (int i = 0; i < count; ++i) {
    const Nanoseconds start = now();
    sleep(length);
    late.add(now() - start - length);
  }
  std::printf("  %-28s %9.0f us %8.1f %8.1f %8.1f %8.1f\n", name, static_cast<double>(length) / 1000,
              late.quantile(0.5), late.quantile(0.9), late.quantile(0.99), late.quantile(1));
  std::fflush(stdout);
}

timespec time_of(Nanoseconds time) { return {time / 1'000'000'000, time % 1'000'000'000}; }

} // namespace

void overshoot(int divisor) {
  std::printf("\nHow late a sleep ends\n  %-28s %12s %8s %8s %8s %8s\n", "", "sleep", "late p50", "p90 us",
              "p99 us", "max us");
  for (const Nanoseconds length : {100'000LL, 850'000LL, 5'000'000LL}) {
    const int count = std::max(5, (length > 1'000'000 ? 150 : 400) / divisor);
    row("clock_nanosleep, absolute", length, count, [](Nanoseconds time) { sleep_until(now() + time); });
    row("nanosleep, relative", length, count, [](Nanoseconds time) {
      const timespec wanted = time_of(time);
      nanosleep(&wanted, nullptr);
    });
    row("timerfd, read", length, count, [](Nanoseconds time) {
      static const Timer timer(TFD_CLOEXEC);
      timer.set(now() + time);
      timer.clear();
    });
    row("timerfd, epoll_wait", length, count, [](Nanoseconds time) {
      static const Timer timer;
      static const Epoll epoll;
      static const bool watched = (epoll.add(timer), true);
      static_cast<void>(watched);
      timer.set(now() + time);
      epoll.wait();
      timer.clear();
    });
    row("ppoll", length, count, [](Nanoseconds time) {
      const timespec wanted = time_of(time);
      ppoll(nullptr, 0, &wanted, nullptr);
    });
  }
}

} // namespace sleeping
