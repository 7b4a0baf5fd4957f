// SPDX-License-Identifier: MIT
// All locks of the library, what a fork does with them, and who notices a fork. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <atomic>
#include <mutex>
#include <new>
#include <pthread.h>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A mutex that fork() holds, so that no thread of the parent leaves it locked in the child.
///
/// No thread may hold one during a driver call. A call can block for as long as a launch queue is
/// full, and until then no thread of the process could fork. The tests ask held() in every call.
class ForkLock {
public:
  void lock() {
    mutex_.lock();
    ++held_;
  }
  void unlock() noexcept {
    --held_;
    mutex_.unlock();
  }

  /// The number of such locks that this thread holds.
  static unsigned held() noexcept { return held_; }

private:
  template <class Owner>
  friend bool lock_in_forks() noexcept;

  static void unlock_all(ForkLock* newest) noexcept {
    while (newest != nullptr)
      std::exchange(newest, newest->before_)->unlock();
  }

  static inline constinit thread_local unsigned held_ [[gnu::tls_model("initial-exec")]] = 0;

  std::mutex mutex_;
  ForkLock* before_ = nullptr; // of the locks that a fork holds, the one that it locked before
};

/// The process that made it. Each forked child is another one.
class HomeProcess {
public:
  HomeProcess() noexcept : made_in_(process_.load(std::memory_order_relaxed)) {}

  /// Whether this is still the process. If not, the threads of that time are not there.
  bool is_this() const noexcept { return made_in_ == process_.load(std::memory_order_relaxed); }

private:
  template <class Owner>
  friend bool lock_in_forks() noexcept;

  static inline constinit std::atomic<unsigned> process_{0}; // another number in each forked child

  unsigned made_in_;
};

/// A mutex that no fork takes, and that no forked child waits for: a thread of the parent, which the child
/// does not have, may have left it locked. Without the driver, the child does not need what it guards.
///
/// Costs what a std::mutex costs, and may be held during a driver call.
class ProcessLock {
public:
  /// Waits for the lock. The result is false in a forked child, if a thread of the parent had the lock at the
  /// fork. Then what the lock guards cannot be used.
  [[nodiscard]] std::unique_lock<std::mutex> hold() const noexcept {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock && home_.is_this()) lock.lock();
    return lock;
  }

private:
  mutable std::mutex mutex_;
  const HomeProcess home_;
};

/// From now on, each fork holds the locks that Owner::instance().each_fork_lock(lock) passes to
/// `lock`. The child first calls Owner::instance().forked(), which may use what the locks guard.
/// Returns false if there is no memory. Nothing else in the library locks at a fork.
template <class Owner>
bool lock_in_forks() noexcept {
  static constinit ForkLock* newest = nullptr; // guarded by the first lock of the owner
  return pthread_atfork(
             [] {
               Owner::instance().each_fork_lock([](ForkLock& lock) {
                 lock.lock();
                 lock.before_ = std::exchange(newest, &lock);
               });
             },
             [] { ForkLock::unlock_all(std::exchange(newest, nullptr)); },
             [] {
               HomeProcess::process_.fetch_add(1, std::memory_order_relaxed);
               Owner::instance().forked();
               ForkLock::unlock_all(std::exchange(newest, nullptr));
             }) == 0;
}

/// Makes the only Owner, which lives forever, and calls lock_in_forks<Owner>(). `only` stays null if there
/// is no memory.
///
/// Called by constructor functions of the library, before any thread can use it. A local static would have
/// a guard. A fork during its initialisation would leave the guard locked in the child.
template <class Owner>
void make_only(Owner*& only) noexcept {
  only = new (std::nothrow) Owner;
  if (only != nullptr && !lock_in_forks<Owner>()) delete std::exchange(only, nullptr);
}

/// The priority of constructor functions of the library: before all static objects.
inline constexpr int first_constructor = 101;

}} // namespace cuevent::CUEVENT_ABI
