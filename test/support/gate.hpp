// SPDX-License-Identifier: MIT
// A gate in a stream. The test decides when the stream continues, so no test depends on how long
// anything takes.
#pragma once

#include "driver_under_test.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <memory>

namespace test {

/// Closed until open() or the destructor. Work that is submitted to the stream after the gate does not
/// start while the gate is closed. Use one closed gate at a time, and no other host function behind it,
/// because the driver may run all host functions on one thread.
class Gate {
public:
  /// If `stream` is a default stream, its context must be current.
  explicit Gate(CUstream stream) {
    auto copy = std::make_unique<std::shared_ptr<State>>(state_);
    REQUIRE(call<PFN_cuLaunchHostFunc_v10000>("cuLaunchHostFunc", 10000)(stream, pass, copy.get()) ==
            CUDA_SUCCESS);
    static_cast<void>(copy.release()); // the host function owns it now
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  /// If the stream has reached the gate, waits until the stream has passed it. On a busy machine the host
  /// function may get no processor for a long time, while time on a virtual clock passes quickly.
  void open() noexcept {
    state_->opened.store(true);
    state_->opened.notify_all();
    if (state_->entered.load()) state_->passed.wait(false);
  }

private:
  struct State { // the host function may outlive the gate
    std::atomic<bool> entered = false, opened = false, passed = false;
  };
  static void CUDA_CB pass(void* owner) {
    const std::unique_ptr<std::shared_ptr<State>> owned(static_cast<std::shared_ptr<State>*>(owner));
    State& state = **owned;
    state.entered.store(true);
    state.opened.wait(false);
    state.passed.store(true);
    state.passed.notify_all();
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

} // namespace test
