// A gate in a stream, by which a test decides when the stream goes on: nothing here depends on how long
// anything takes.
#pragma once

#include "driver_under_test.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <memory>

namespace test {

/// Closed from its making until open() or its destructor: what is submitted to the stream meanwhile does not
/// start. One closed gate at a time, and no other host function behind it: the driver may run all of them on
/// one thread.
class Gate {
public:
  /// A default stream has to be that of the current context.
  explicit Gate(CUstream stream) {
    auto copy = std::make_unique<State>(opened_);
    REQUIRE(call<PFN_cuLaunchHostFunc_v10000>("cuLaunchHostFunc", 10000)(stream, pass, copy.get()) ==
            CUDA_SUCCESS);
    static_cast<void>(copy.release()); // the host function's now
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  void open() noexcept {
    opened_->store(true);
    opened_->notify_all();
  }

private:
  using State = std::shared_ptr<std::atomic<bool>>; // the host function may outlive the gate
  static void CUDA_CB pass(void* state) {
    const std::unique_ptr<State> opened(static_cast<State*>(state));
    (*opened)->wait(false);
  }

  State opened_ = std::make_shared<std::atomic<bool>>(false);
};

} // namespace test
