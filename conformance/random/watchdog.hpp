// SPDX-License-Identifier: MIT
// Ends what hangs: first it opens all gates, then it ends the process.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace conformance {

class Watchdog {
public:
  Watchdog();
  ~Watchdog();

  void guard(unsigned* gates, int count); ///< these words are set to 1 to open the gates
  void call_begins();
  bool call_ends(); ///< whether the watchdog had to open the gates

private:
  void watch();

  using Clock = std::chrono::steady_clock;
  std::atomic<unsigned*> gates_ = nullptr;
  std::atomic<int> count_ = 0;
  std::atomic<Clock::rep> since_ = 0; ///< 0: no call is under way
  std::atomic<bool> opened_ = false;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

} // namespace conformance
