// SPDX-License-Identifier: MIT
// Counts the allocations of a thread, makes them fail, and acts inside them, in a program that is linked with
// allocations.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <new>

namespace test {

/// The number of calls of operator new on this thread so far.
std::size_t allocations_of_this_thread() noexcept;

/// The number of allocations of this thread, less the number that this thread has freed.
long live_allocations_of_this_thread() noexcept;

/// In its scope, one allocation of this thread fails, or all of them. The scopes do not nest.
class FailingAllocation {
public:
  /// The k-th allocation from now fails. 1 is the next one, 0 means every one.
  explicit FailingAllocation(std::size_t k) noexcept;
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  ~FailingAllocation();

  /// Whether an allocation has failed.
  static bool happened() noexcept;
};

/// In its scope, one allocation of this thread calls a function first. The scopes do not nest.
class InsideAllocation {
public:
  /// The k-th allocation from now calls `run`. 1 is the next one.
  InsideAllocation(std::size_t k, std::function<void()> run);
  InsideAllocation(const InsideAllocation&) = delete;
  InsideAllocation& operator=(const InsideAllocation&) = delete;
  ~InsideAllocation();

private:
  const std::function<void()> run_;
};

/// In its scope, allocations neither fail nor call anything: those of stubs, which are not the library's.
class SafeAllocations {
public:
  SafeAllocations() noexcept;
  SafeAllocations(const SafeAllocations&) = delete;
  SafeAllocations& operator=(const SafeAllocations&) = delete;
  ~SafeAllocations();

private:
  const bool failing_;
  const std::function<void()>* const inside_;
};

/// Calls `run` with its first allocation failing, then with its second one, and so on. `run` may throw
/// std::bad_alloc. `check` looks at what each failure has left behind. The last call of `run` has no failure.
/// Returns the number of failures.
template <class Run, class Check>
std::size_t fail_each_allocation(const Run& run, const Check& check) {
  for (std::size_t k = 1;; ++k) {
    bool happened = false;
    {
      const FailingAllocation failing(k);
      try {
        run();
      } catch (const std::bad_alloc&) {
      }
      happened = FailingAllocation::happened();
    }
    if (!happened) return k - 1;
    check();
  }
}

} // namespace test
