// SPDX-License-Identifier: MIT
// For the start of a thread. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <csignal>
#include <pthread.h>

namespace cuevent { inline namespace CUEVENT_ABI {

/// While it lives, the calling thread blocks all signals, and so does each thread that it starts: the
/// program's signal handlers run on the program's threads.
class BlockedSignals {
public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
  sigset_t before_;
};

}} // namespace cuevent::CUEVENT_ABI
