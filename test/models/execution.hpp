// SPDX-License-Identifier: MIT
// A checker of small lock-free programs: runs a program in every way that C++ memory orders allow.
//
// A program is a class with its shared variables, and one coroutine per thread. Each operation on
// an Atomic, a Mutex or a fence is a step. explore() runs all orders of the steps, and in each order
// all values that a load may read. It looks for:
// - a data race: two accesses to a Plain, one of them a write, and neither happens before the other;
// - an access to a Memory after its end;
// - a check() that fails;
// - a deadlock: threads wait, and no thread can go on.
//
// The semantics are those of views (Kang et al., "A promising semantics for relaxed-memory
// concurrency", 2017), without promises. Each location has its messages in modification order. A
// thread may read any message that is not older than its view. A release puts the view of the
// thread into the message, and an acquire joins the message's view into the thread's. A relaxed
// store may go anywhere in the modification order after what the thread has seen. Operations that
// read and write are next to what they read, and continue a release sequence, as in C++20.
// Fences that are seq_cst exchange views with one global view. Data races are found with vector
// clocks, which the global view does not carry.
//
// Load buffering is not explored: an execution in which a thread performs a relaxed store before an
// earlier relaxed load. In the code that is modelled here, each store is a release, follows an
// acquire or a barrier, or depends on the load. seq_cst operations other than fences are not
// modelled either, and the library does not rely on them.
#pragma once

#include "task.hpp"
#include "view.hpp"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace model {

struct Operation;

/// The choices of all executions, in depth-first order. States that were reached before are not
/// explored again.
class Choices {
public:
  /// Prepares the next execution. Returns false if there is none.
  bool next();
  /// One of `count` alternatives.
  std::size_t choose(std::size_t count);
  /// Returns false if an execution has reached the state before.
  bool reach(const std::string& state);
  /// Whether the execution still repeats the previous one.
  bool repeating() const noexcept { return at_ < repeated_; }

  std::size_t executions() const noexcept { return executions_; }
  std::size_t states() const noexcept { return states_.size(); }

private:
  struct Choice {
    std::size_t chosen, count;
  };
  std::vector<Choice> choices_;
  std::size_t at_ = 0, repeated_ = 0, executions_ = 0;
  std::unordered_set<std::string> states_;
};

/// One execution of a program.
class Execution {
public:
  explicit Execution(Choices& choices) noexcept : choices_(choices) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  void spawn(std::string name, Task<> program);
  /// Returns false if the execution ended early: with a violation, or in a state that is known.
  bool run();
  void check(bool promise, const std::string& what) {
    if (!promise && violation_.empty()) violation_ = what;
  }
  /// Empty, or what is wrong and the steps that lead to it.
  std::string violation() const;

private:
  friend class Plain;
  friend class Memory;
  friend class Atomic;
  friend class Mutex;
  friend struct Operation;
  friend struct CompareExchange;
  friend Operation fence(Execution& execution, std::memory_order order);
  friend Operation barrier_of_all_threads(Execution& execution);

  static constexpr std::size_t none = ~std::size_t{0};

  struct Location {
    std::string name;
    std::vector<Message> messages;
  };
  struct Cell { // of a Plain
    std::string name;
    std::int64_t value = 0;
    std::size_t writer = 0;
    std::uint8_t written = 0; // the writer's clock; 0 for the first value
    std::array<std::uint8_t, most_threads> read{};
  };
  struct Lock {
    bool locked = false;
    View view;
  };
  struct Request {
    enum class Kind { load, store, update, lock, fence, barrier } kind = Kind::load;
    std::size_t index = 0;     // of the location or the lock
    std::size_t memory = none; // the cell of the Memory that it lies in
    std::memory_order order = std::memory_order_relaxed, failure = std::memory_order_relaxed;
    std::int64_t value = 0;                                                // of a store
    std::function<bool(std::int64_t)> accepts = {};                        // of an operation that waits
    std::function<std::optional<std::int64_t>(std::int64_t)> updated = {}; // no value: the update fails
  };
  struct Thread {
    std::string name;
    Task<> program;
    std::coroutine_handle<> suspended = {};
    Request request = {};
    std::int64_t read = 0;
    bool succeeded = false;
    View now = {}, acquired = {}, released = {};
    std::string history = {}; // the values read, which determine what the thread does next
    bool in_barrier = false;
    std::vector<std::size_t> unreached = {}; // the threads that its barrier has not reached yet
  };
  struct Step {
    std::size_t thread;
    std::size_t message = 0;    // the one read, or the place of the one written
    std::size_t reaches = none; // the thread that a barrier reaches
  };

  Thread& current() { return threads_[current_]; }
  Request& request(Request request) { return current().request = std::move(request); }
  std::vector<Step> steps() const;
  void add_steps(std::size_t thread, std::vector<Step>& to) const;
  void take(const Step& step);
  void update(const Step& step);
  void resume(std::size_t thread);
  void learn(Thread& thread, const Request& request, std::memory_order order, std::size_t message);
  void write(std::size_t thread, std::size_t location, Message message, std::size_t at,
             std::memory_order order);
  void fence(std::size_t thread, std::memory_order order);
  void touch(std::size_t memory);
  std::int64_t read(std::size_t cell);
  void write(std::size_t cell, std::int64_t value);
  void race(const Cell& cell, std::size_t other);
  std::string state() const;

  Choices& choices_;
  std::vector<Thread> threads_;
  std::vector<Location> locations_;
  std::vector<Cell> cells_;
  std::vector<Lock> locks_;
  View global_;                // of seq_cst fences
  std::size_t current_ = none; // the thread whose code runs; none before the start and after the end
  std::vector<Step> taken_;
  std::string trace_;
  std::string violation_;
};

/// A step of a thread, which the thread has to co_await at once. The request for the step is kept
/// by the thread, because g++ 12 mishandles awaited temporaries that have a destructor.
struct Operation {
  Execution& execution;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> suspended) const noexcept {
    execution.current().suspended = suspended;
  }
  std::int64_t await_resume() const noexcept { return execution.current().read; }

  using Request = Execution::Request;
};

struct CompareExchange : Operation {
  std::int64_t& expected;
  bool await_resume() const noexcept {
    if (!execution.current().succeeded) expected = execution.current().read;
    return execution.current().succeeded;
  }
};

} // namespace model
