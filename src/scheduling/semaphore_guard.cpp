// SPDX-License-Identifier: MIT
#include "scheduling/semaphore_guard.hpp"

#include "core/blocked_signals.hpp"
#include "core/erase_where.hpp"
#include "core/stay_loaded.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr long long usual_period = 100'000'000, pending_period = 10'000'000, busy_period = 1'000'000; // ns
constexpr int busy_rounds = 1'000;        // after a signal that lowered an abandoned semaphore
constexpr int death_rounds = 5;           // after a file was closed: its lock goes a moment later
constexpr unsigned looks_per_check = 16;  // among looks at all: one asks about every lock
constexpr std::size_t looks_at_once = 16; // under the lock, some 10 us

/// A thread as any other, whatever the thread is that creates it.
pthread_attr_t usual_scheduling() noexcept {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  constexpr sched_param none{}; // otherwise the C library asks the calling thread
  pthread_attr_setschedparam(&attributes, &none);
  return attributes;
}

} // namespace

void Semaphores::make() noexcept { make_only(only); }

/// The child is no participant. Otherwise the parent would seem to live as long as the child.
void Semaphores::forked() noexcept {
  running_ = false;
  closed_files_.close(); // the child shares it with the parent
  for (SemaphoreState* const state : states_) {
    state->guarded = false;
    state->watch = ClosedFiles::none;
    if (state->timeline.lock >= 0) close(state->timeline.lock);
    close(state->timeline.memory);
    state->timeline.lock = state->timeline.memory = -1;
  }
}

bool Semaphores::add(SemaphoreState& state) {
  const std::lock_guard lock(mutex_);
  // Registered after cuInit, so the streams still run when it is called.
  if (!leaves_at_exit_ && std::atexit([] { instance().leave_at_exit(); }) != 0) return false;
  leaves_at_exit_ = true;
  states_.push_back(&state);
  return true;
}

bool Semaphores::guard(SemaphoreState& state) noexcept {
  if (!stay_loaded()) return false; // the thread may outlive the plugin that contains this code
  const std::lock_guard lock(mutex_);
  running_ = running_ || start_thread();
  has_more_ = true;
  state.guarded = state.guarded || running_;
  return running_;
}

/// Under the lock.
bool Semaphores::start_thread() noexcept {
  const BlockedSignals blocked;
  pthread_attr_t attributes = usual_scheduling();
  pthread_t thread;
  const int failed = pthread_create(
      &thread, &attributes,
      [](void*) -> void* {
        pthread_setname_np(pthread_self(), "cuevent-guard");
        instance().run();
        return nullptr;
      },
      nullptr);
  pthread_attr_destroy(&attributes);
  return failed == 0;
}

void Semaphores::run() noexcept {
  long long all_at = 0;
  while (true) {
    const long long now = cuevent_timeline_now();
    const bool every = now >= all_at;
    if (every) all_at = now + usual_period;
    const long long longest = look_at_all(every);
    if (longest == 0) return;
    sleep(std::clamp(all_at - cuevent_timeline_now(), 0LL, longest));
  }
}

/// Ends early if a file was closed, but not at once: other processes decide how often that is.
void Semaphores::sleep(long long nanoseconds) noexcept {
  const timespec least{0, std::min(nanoseconds, busy_period)}, rest{0, nanoseconds - least.tv_nsec};
  nanosleep(&least, nullptr);
  pollfd closed{closed_files_.descriptor(), POLLIN, 0};
  ppoll(&closed, 1, &rest, nullptr);
}

/// Returns for how long the thread may sleep. 0 if there is nothing to guard.
long long Semaphores::look_at_all(bool every) noexcept {
  long long sleep = usual_period;
  bool any = false;
  // Begins at the end: a semaphore that is erased meanwhile is replaced by one that was looked at.
  std::unique_lock lock(mutex_);
  has_more_ = false;
  if (every) ++looks_;
  while (closed_files_.take([this](int watch) { note_closed(watch); })) {
  }
  for (std::size_t left = states_.size(), looks = 0; left > 0; left = std::min(left - 1, states_.size())) {
    SemaphoreState& state = *states_[left - 1];
    if (!state.guarded) continue;
    any = true;
    if (!every && !state.soon) continue;
    sleep = std::min(sleep, look_at(state));
    if (++looks % looks_at_once != 0) continue;
    lock.unlock(); // nobody waits for the whole look
    sched_yield();
    lock.lock();
  }
  running_ = any || has_more_;
  if (running_) return sleep;
  closed_files_.close();
  return 0;
}

/// Marks the semaphores of a file that was closed.
void Semaphores::note_closed(int watch) noexcept {
  for (SemaphoreState* const state : states_)
    if (state->guarded && (state->watch == watch || watch == ClosedFiles::none)) {
      state->death_rounds = death_rounds;
      state->soon = true;
    }
}

/// Whether to ask about the locks now. Under the lock.
bool Semaphores::looks_for_death(SemaphoreState& state) noexcept {
  if (!state.abandon_on_death || state.timeline.lock < 0 || state.abandoned()) return false;
  if (state.watch == ClosedFiles::none) {
    state.watch = closed_files_.watch(state.timeline.memory);
    return true;
  }
  if (state.death_rounds > 0) return true;
  return looks_ % looks_per_check == 0;
}

/// Returns when to look again. Under the lock.
long long Semaphores::look_at(SemaphoreState& state) noexcept {
  // Its own place need not be asked about: this process lives.
  if (looks_for_death(state) && cuevent_timeline_other_died(&state.timeline, state.timeline.place) != 0)
    cuevent_timeline_abandon(&state.page());
  if (state.death_rounds > 0) --state.death_rounds;
  const bool none = state.pending.none(); // asked before the last look
  long long next = none ? usual_period : pending_period;
  if (state.abandoned()) {
    state.guarded = state.in_use || !none;
    if (cuevent_timeline_keep_released(&state.page()) != 0 || state.busy_rounds == 0)
      state.busy_rounds = busy_rounds;
    if (state.busy_rounds > 1) {
      --state.busy_rounds;
      next = busy_period;
    }
  } else if (state.death_rounds > 0) {
    next = busy_period;
  } else if (!state.in_use && none) {
    leave(state);
  }
  state.soon = next != usual_period;
  return next;
}

/// Another semaphore of this process may have the same file.
void Semaphores::stop_watching(SemaphoreState& state) noexcept {
  const int watch = std::exchange(state.watch, ClosedFiles::none);
  if (watch == ClosedFiles::none) return;
  if (std::none_of(states_.begin(), states_.end(),
                   [&](const SemaphoreState* other) { return other->watch == watch; }))
    closed_files_.forget(watch);
}

/// Only the mapping stays, and the guard of an abandoned semaphore that a queued signal may lower.
void Semaphores::leave(SemaphoreState& state) noexcept {
  stop_watching(state);
  cuevent_timeline_leave(&state.timeline);
  close(std::exchange(state.timeline.memory, -1));
  state.guarded = state.abandoned() && !state.pending.none();
}

void Semaphores::retire(SemaphoreState& state) noexcept {
  const bool shared = state.timeline.lock >= 0;
  const std::lock_guard lock(mutex_);
  state.in_use = false;
  state.soon = true;
  state.abandon_on_death = false;
  // At once, if possible, because the process may end before the thread looks.
  if (!shared || state.abandoned() || state.pending.none()) leave(state);
  if (state.registered) return;
  erase(state);
  delete &state;
}

void Semaphores::erase(SemaphoreState& state) noexcept {
  const auto found = std::find(states_.begin(), states_.end(), &state);
  if (found == states_.end()) return; // add() failed
  *found = states_.back();
  states_.pop_back();
}

void Semaphores::free_ended(const SemaphoreState& newest) noexcept {
  for (std::size_t at = 0;;) { // each context of destroyed semaphores
    CUcontext context = nullptr;
    unsigned long long id = 0;
    void* page = nullptr;
    {
      const std::lock_guard lock(mutex_);
      while (at < states_.size() && (states_[at]->in_use || states_[at]->table != newest.table))
        ++at;
      if (at == states_.size()) return;
      context = states_[at]->context;
      id = states_[at]->context_id;
      page = states_[at]->timeline.page;
    }
    bool ended = id != newest.context_id;
    if (context != newest.context) { // asked without the lock, which fork() takes
      // The handle may be dead, and then the driver must not be asked about it.
      CUdeviceptr address = 0;
      ended = newest.table->cuMemHostGetDevicePointer_v3020(&address, page, 0) == CUDA_ERROR_INVALID_VALUE;
    }
    const auto is_of_it = [&](const SemaphoreState& state) {
      return !state.in_use && state.table == newest.table && state.context == context &&
             state.context_id == id;
    };
    const std::lock_guard lock(mutex_);
    if (ended)
      erase_where(states_, [&](SemaphoreState* const state) {
        const bool frees = is_of_it(*state);
        if (frees) delete state;
        return frees;
      });
    else
      while (at < states_.size() && is_of_it(*states_[at]))
        ++at;
  }
}

void Semaphores::leave_at_exit() noexcept {
  constexpr long long longest = 100'000'000, pause = 100'000; // ns
  for (long long waited = 0; waited <= longest; waited += pause) {
    const DriverTable* table = nullptr;
    {
      const std::lock_guard lock(mutex_);
      for (SemaphoreState* const state : states_) {
        if (state->in_use || state->timeline.lock < 0) continue;
        if (state->abandoned() || state->pending.none())
          leave(*state);
        else
          table = state->table;
      }
    }
    if (table == nullptr) return;
    table->pause(pause);
  }
}

int Semaphores::export_handle(SemaphoreState& state, int& descriptor) noexcept {
  const std::lock_guard lock(mutex_);
  const int made = cuevent_timeline_export(&state.timeline);
  if (made < 0) return -made;
  descriptor = made;
  return 0;
}

}} // namespace cuevent::CUEVENT_ABI
