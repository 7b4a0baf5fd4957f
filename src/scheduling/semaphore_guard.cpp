// SPDX-License-Identifier: MIT
#include "scheduling/semaphore_guard.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr long long idle_period = 10'000'000, busy_period = 1'000'000; // ns
constexpr int busy_rounds = 1'000; // after a signal that lowered an abandoned semaphore

/// Under the lock.
void abandon_if_died(SemaphoreState& state) noexcept {
  if (state.abandon_on_death && !state.abandoned() && cuevent_timeline_participant_died(&state.timeline) != 0)
    cuevent_timeline_abandon(&state.page());
}

} // namespace

Semaphores& Semaphores::instance() {
  static Semaphores& semaphores = *new Semaphores;
  return semaphores;
}

Semaphores::Semaphores() noexcept {
  lock_in_forks<Semaphores>();
  // Registered after cuInit, so the streams still run.
  std::atexit([] { instance().leave_at_exit(); });
}

/// The child is no participant. Otherwise the parent would seem to live as long as the child.
void Semaphores::forked() noexcept {
  running_ = false;
  for (SemaphoreState* const state : states_) {
    state->guarded = false;
    if (state->timeline.lock >= 0) close(state->timeline.lock);
    close(state->timeline.memory);
    state->timeline.lock = state->timeline.memory = -1;
  }
}

void Semaphores::add(SemaphoreState& state) {
  const std::lock_guard lock(mutex_);
  states_.push_back(&state);
}

bool Semaphores::guard(SemaphoreState& state) noexcept {
  const std::lock_guard lock(mutex_);
  if (!running_) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the program's signal handlers run on its own threads
    pthread_t thread;
    running_ = pthread_create(
                   &thread, nullptr,
                   [](void*) -> void* {
                     instance().run();
                     return nullptr;
                   },
                   nullptr) == 0;
    if (running_) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  state.guarded = state.guarded || running_;
  return running_;
}

bool Semaphores::abandon_on_death(SemaphoreState& state) noexcept {
  if (!guard(state)) return false;
  const std::lock_guard lock(mutex_);
  state.abandon_on_death = true;
  return true;
}

void Semaphores::look_for_death(SemaphoreState& state) noexcept {
  const std::lock_guard lock(mutex_);
  abandon_if_died(state);
}

void Semaphores::run() noexcept {
  long long sleep = idle_period;
  while (look_at_all(sleep)) {
    const timespec period{0, static_cast<long>(sleep)};
    nanosleep(&period, nullptr);
  }
}

/// Returns false if there is nothing to guard.
bool Semaphores::look_at_all(long long& sleep) noexcept {
  const std::lock_guard lock(mutex_);
  bool any = false;
  sleep = idle_period;
  for (SemaphoreState* const each : states_) {
    SemaphoreState& state = *each;
    if (!state.guarded) continue;
    any = true;
    abandon_if_died(state);
    const bool none = state.pending.none(); // asked before the last look
    if (state.abandoned()) {
      state.guarded = state.in_use || !none;
      if (cuevent_timeline_keep_released(&state.page()) != 0 || state.busy_rounds == 0)
        state.busy_rounds = busy_rounds;
      if (state.busy_rounds > 1) {
        --state.busy_rounds;
        sleep = busy_period;
      }
    } else if (!state.in_use && none) {
      leave(state);
    }
  }
  running_ = any;
  return any;
}

/// Only the mapping stays, and the guard of an abandoned semaphore that a queued signal may lower.
void Semaphores::leave(SemaphoreState& state) noexcept {
  cuevent_timeline_leave(&state.timeline);
  close(std::exchange(state.timeline.memory, -1));
  state.guarded = state.abandoned() && !state.pending.none();
}

void Semaphores::retire(SemaphoreState& state) noexcept {
  const bool shared = state.timeline.lock >= 0;
  const std::lock_guard lock(mutex_);
  state.in_use = false;
  state.abandon_on_death = false;
  // At once, if possible, because the process may end before the thread looks.
  if (!shared || state.abandoned() || state.pending.none()) leave(state);
  if (state.registered) return;
  erase(state);
  delete &state;
}

void Semaphores::erase(SemaphoreState& state) noexcept {
  const auto found = std::find(states_.begin(), states_.end(), &state);
  if (found == states_.end()) return; // add() threw
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
      std::erase_if(states_, [&](SemaphoreState* const state) {
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

bool Semaphores::participant_died(const SemaphoreState& state) noexcept {
  const std::lock_guard lock(mutex_);
  return cuevent_timeline_participant_died(&state.timeline) != 0;
}

}} // namespace cuevent::CUEVENT_ABI
