// SPDX-License-Identifier: MIT
// The variables of a model, and explore(), which runs it. execution.hpp says what is checked.
#pragma once

#include "execution.hpp"

#include <stdexcept>
#include <utility>

namespace model {

/// Memory that ends, for example an object that is deleted. Each access to a variable in it has to
/// happen before the end.
class Memory {
public:
  Memory(Execution& execution, std::string name) : execution_(execution), cell_(execution.cells_.size()) {
    execution.cells_.push_back({.name = std::move(name), .value = 1});
  }
  void end() {
    execution_.touch(cell_);
    execution_.write(cell_, 0);
  }
  bool ended() const { return execution_.cells_[cell_].value == 0; }

private:
  friend class Plain;
  friend class Atomic;
  friend class Mutex;

  Execution& execution_;
  const std::size_t cell_;
};

/// A variable that is not atomic.
class Plain {
public:
  Plain(Execution& execution, std::string name, std::int64_t value, const Memory* memory = nullptr)
      : execution_(execution), cell_(execution.cells_.size()), memory_(memory) {
    execution.cells_.push_back({.name = std::move(name), .value = value});
  }
  std::int64_t read() {
    if (memory_ != nullptr) execution_.touch(memory_->cell_);
    return execution_.read(cell_);
  }
  void write(std::int64_t value) {
    if (memory_ != nullptr) execution_.touch(memory_->cell_);
    execution_.write(cell_, value);
  }

private:
  Execution& execution_;
  const std::size_t cell_;
  const Memory* const memory_;
};

/// A variable that is atomic.
class Atomic {
public:
  Atomic(Execution& execution, std::string name, std::int64_t value, const Memory* memory = nullptr)
      : execution_(execution), memory_(memory != nullptr ? memory->cell_ : Execution::none),
        location_(execution.locations_.size()) {
    if (location_ == most_locations) throw std::length_error("the model has too many atomic variables");
    execution.locations_.push_back(
        {.name = std::move(name), .messages = {Message{.value = value, .view = {}}}});
  }

  Operation load(std::memory_order order) {
    request(Operation::Request::Kind::load, order);
    return {execution_};
  }
  /// Loads until the value is accepted. Takes the place of a loop: what such a loop reads before has
  /// no effect except that it may learn more.
  Operation await(std::memory_order order, std::function<bool(std::int64_t)> accepts) {
    request(Operation::Request::Kind::load, order).accepts = std::move(accepts);
    return {execution_};
  }
  /// Waits until the newest value is accepted, if all other writes are updates too. For what the kernel
  /// does: await() may read an older value.
  Operation await_newest(std::memory_order order, std::function<bool(std::int64_t)> accepts) {
    const Operation operation = update(order, [](std::int64_t old) { return old; });
    execution_.current().request.accepts = std::move(accepts);
    return operation;
  }
  Operation store(std::int64_t value, std::memory_order order) {
    request(Operation::Request::Kind::store, order).value = value;
    return {execution_};
  }
  Operation exchange(std::int64_t value, std::memory_order order) {
    return update(order, [value](std::int64_t) { return value; });
  }
  Operation fetch_add(std::int64_t by, std::memory_order order) {
    return update(order, [by](std::int64_t old) { return old + by; });
  }
  Operation fetch_or(std::int64_t bits, std::memory_order order) {
    return update(order, [bits](std::int64_t old) { return old | bits; });
  }
  Operation fetch_and(std::int64_t bits, std::memory_order order) {
    return update(order, [bits](std::int64_t old) { return old & bits; });
  }
  CompareExchange compare_exchange(std::int64_t& expected, std::int64_t desired, std::memory_order success,
                                   std::memory_order failure) {
    const Operation operation = update(success, [from = expected, desired](std::int64_t old) {
      return old == from ? std::optional(desired) : std::nullopt;
    });
    execution_.current().request.failure = failure;
    return {operation, expected};
  }

  /// After the end of all threads.
  std::int64_t last() const { return execution_.locations_[location_].messages.back().value; }

private:
  Operation::Request& request(Operation::Request::Kind kind, std::memory_order order) {
    return execution_.request({.kind = kind, .index = location_, .memory = memory_, .order = order});
  }
  Operation update(std::memory_order order,
                   std::function<std::optional<std::int64_t>(std::int64_t)> updated) {
    request(Operation::Request::Kind::update, order).updated = std::move(updated);
    return {execution_};
  }

  Execution& execution_;
  const std::size_t memory_, location_;
};

class Mutex {
public:
  explicit Mutex(Execution& execution, const Memory* memory = nullptr)
      : execution_(execution), lock_(execution.locks_.size()),
        memory_(memory != nullptr ? memory->cell_ : Execution::none) {
    execution.locks_.emplace_back();
  }
  Operation lock() {
    execution_.request({.kind = Operation::Request::Kind::lock, .index = lock_, .memory = memory_});
    return {execution_};
  }
  void unlock() {
    if (memory_ != Execution::none) execution_.touch(memory_);
    execution_.locks_[lock_] = {.locked = false, .view = execution_.current().now};
    ++execution_.current().now.clock[execution_.current_];
  }

private:
  Execution& execution_;
  const std::size_t lock_, memory_;
};

/// std::atomic_thread_fence.
inline Operation fence(Execution& execution, std::memory_order order) {
  execution.request({.kind = Operation::Request::Kind::fence, .order = order});
  return {execution};
}

/// membarrier(2): a seq_cst fence of this thread, then one in each other thread, between any two
/// steps of it, then another one of this thread.
inline Operation barrier_of_all_threads(Execution& execution) {
  execution.request({.kind = Operation::Request::Kind::barrier});
  return {execution};
}

struct Result {
  std::string violation; // empty if there is none
  std::size_t executions = 0, states = 0;
};

/// Runs all executions of a program until one has a violation. Program(execution, options...)
/// spawns the threads; finish() is called when all have ended.
template <class Program, class... Options>
Result explore(const Options&... options) {
  Choices choices;
  Result result;
  while (result.violation.empty() && choices.next()) {
    Execution execution(choices);
    Program program(execution, options...);
    if (execution.run()) program.finish();
    result.violation = execution.violation();
  }
  result.executions = choices.executions();
  result.states = choices.states();
  return result;
}

} // namespace model
