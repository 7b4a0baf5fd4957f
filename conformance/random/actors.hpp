// SPDX-License-Identifier: MIT
// The threads of a program. They live as long as their process and act one at a time.
#pragma once

#include "program.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace conformance {

class Actors {
public:
  ~Actors();
  /// Runs the action on that thread, and returns when it has returned. Thread 0 is the caller's.
  void act(int thread, const std::function<void()>& action);

private:
  struct Actor {
    std::atomic<int> turn{0}; ///< 0: idle, 1: acts, 2: ends
    const std::function<void()>* action = nullptr;
    std::thread thread;
  };
  static void loop(Actor&);
  std::unique_ptr<Actor> actors_[thread_slots];
};

} // namespace conformance
