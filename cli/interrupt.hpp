// SPDX-License-Identifier: MIT
// Reports Ctrl-C to a long run, so that its partial results can be kept.
#pragma once

#include <csignal>

namespace cli {

/// While an object of this class exists, the first SIGINT only sets its value to true. The second
/// SIGINT ends the process as usual. If SIGINT was ignored before, it stays ignored.
class Interrupt {
public:
  Interrupt() {
    seen = 0;
    struct sigaction ours {};
    ours.sa_handler = [](int) { seen = 1; };
    ours.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, nullptr, &before_);
    if (before_.sa_handler != SIG_IGN) sigaction(SIGINT, &ours, nullptr);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt() { sigaction(SIGINT, &before_, nullptr); }

  explicit operator bool() const noexcept { return seen != 0; }

private:
  static inline volatile std::sig_atomic_t seen = 0;
  struct sigaction before_ {};
};

} // namespace cli
