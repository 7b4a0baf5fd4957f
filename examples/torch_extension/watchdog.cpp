// SPDX-License-Identifier: MIT
#include "watchdog.hpp"

#include <cstdio>

using namespace cuevent;

Watchdog::Watchdog(const Context& context, Seconds limit)
    : limit_(std::chrono::duration_cast<Clock::duration>(limit)), moved_(Clock::now()), queue_(context) {
  queue_.reserve(256); // so that no beat creates an event
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  ended_ = true;
  thread_.join();
}

void Watchdog::beat(Stream stream) {
  if (submitted_ == completed_) moved_ = Clock::now();
  ++submitted_;
  try {
    queue_.when_complete({*stream.context, stream.handle}, [this](CUresult result) { complete(result); });
  } catch (...) {
    --submitted_;
    throw;
  }
}

bool Watchdog::stuck() const noexcept {
  return completed_ < submitted_ && Clock::now() - moved_.load() > limit_;
}

void Watchdog::complete(CUresult result) noexcept {
  CUresult none = CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) error_.compare_exchange_strong(none, result);
  moved_ = Clock::now();
  ++completed_;
}

void Watchdog::watch() noexcept {
  bool said = false;
  while (!ended_) {
    queue_.wait_for(std::chrono::milliseconds(50));
    const bool now = stuck();
    if (now && !said)
      std::fprintf(stderr, "watchdog: the device has not completed step %ld in time\n", completed_ + 1);
    said = now;
  }
}
