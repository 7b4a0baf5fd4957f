// SPDX-License-Identifier: MIT
// Threads that sleep until a CompletionQueue has something to run.
#include "core/learned_wait.hpp"
#include "scheduling/completion_queue_state.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace cuevent { inline namespace CUEVENT_ABI {

std::size_t CompletionQueueState::wait_for(TimeLimit timeout) noexcept {
  constexpr long long longest_sleep = 1'000'000; // documented in CompletionQueue::wait_for()
  if (runs_callback()) return 0;
  const DriverTable& table = context_.driver().table();
  long long now = table.clock_now();
  const long long end = Deadline(timeout).at(std::chrono::nanoseconds(now)).count();
  std::optional<LearnedWait> wait;
  while (true) {
    const std::size_t ran = poll(PollLimit()); // a callback may destroy the queue
    now = table.clock_now();
    if (ran != 0 && wait) wait->ended(now);
    if (ran != 0 || now >= end) return ran;
    if (pending() == 0) {
      wait.reset();
      table.pause(std::min(end - now, longest_sleep));
    } else {
      if (!wait) wait.emplace(table, this, now);
      wait->pass(now, end - now);
    }
  }
}

CUresult CompletionQueueState::native_handle(int& out) noexcept {
  return forked() ? CUDA_ERROR_NOT_INITIALIZED : timer_.open(out);
}

CUresult CompletionQueueState::arm(TimeLimit most_late) noexcept {
  int descriptor = -1;
  if (const CUresult result = native_handle(descriptor); result != CUDA_SUCCESS) return result;
  if (!turns_.take(process())) return CUDA_ERROR_NOT_READY;
  const bool armed = sleep_begins(most_late.nanoseconds().count());
  if (turns_.leave()) finish();
  return armed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/// Returns false if the thread has to poll again. No submission gets lost: it either makes the exchange
/// of the inbox fail, or finds the inbox asleep after the timer was set, and rings.
bool CompletionQueueState::sleep_begins(long long most_late) noexcept {
  std::uint64_t inbox = inbox_.load(std::memory_order_relaxed);
  if (stopped_ || !is_empty(inbox)) return false;
  long long sleep = 0;
  if (!streams_.empty()) {
    sleep = schedule_.next(context_.driver().table(), WakeTimer::now(), count_of(inbox), most_late);
    if (sleep == 0) return false;
  }
  timer_.set(sleep);
  if (inbox_.compare_exchange_strong(inbox, asleep(inbox), std::memory_order_release,
                                     std::memory_order_relaxed))
    return true;
  timer_.ring(); // the setting may have undone the ring of a submission, and another thread sleeps
  return false;
}

}} // namespace cuevent::CUEVENT_ABI
