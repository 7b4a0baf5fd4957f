// SPDX-License-Identifier: MIT
// The coroutines in which the programs of a model are written. Never write co_await in the condition
// of an `if` or a loop: g++ 12 compiles it wrongly. Assign the value to a variable first.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace model {

namespace detail {

struct TaskPromise {
  std::coroutine_handle<> caller;

  struct Return {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) const noexcept {
      const std::coroutine_handle<> back = done.promise().caller;
      return back ? back : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() const noexcept { return {}; }
  Return final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

template <class T>
struct ValuePromise : TaskPromise {
  T value{};
  void return_value(T returned) noexcept { value = returned; }
};

template <>
struct ValuePromise<void> : TaskPromise {
  void return_void() const noexcept {}
};

} // namespace detail

/// A thread of a model, or a function that it calls with co_await.
template <class T = void>
class [[nodiscard]] Task {
public:
  struct promise_type : detail::ValuePromise<T> {
    Task get_return_object() noexcept {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
  };

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  std::coroutine_handle<> handle() const noexcept { return coroutine_; }
  bool done() const noexcept { return coroutine_.done(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
    coroutine_.promise().caller = caller;
    return coroutine_;
  }
  T await_resume() const noexcept {
    if constexpr (!std::is_void_v<T>) return coroutine_.promise().value;
  }

private:
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

} // namespace model
