// SPDX-License-Identifier: MIT
// Coroutines for tests.
#pragma once

#include <coroutine>

namespace test {

/// A coroutine that starts immediately. Nothing waits for its end.
struct Task {
  struct promise_type {
    Task get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const { throw; }
  };
};

} // namespace test
