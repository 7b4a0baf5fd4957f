// SPDX-License-Identifier: MIT
// Ctrl-C as a question, for work that is worth keeping when it is cut short.
#pragma once

#include <csignal>

namespace cli {

/// While one exists, the first SIGINT only makes it true; the second one ends the process as usual. A SIGINT
/// that was ignored stays ignored.
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
