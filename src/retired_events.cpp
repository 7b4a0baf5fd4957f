#include "retired_events.hpp"

#include <new>

namespace cuevent {

constinit std::atomic<RetiredEvent*> retired_events{nullptr};

void push_retired(RetiredEvent* retired) noexcept {
  retired->next = retired_events.load(std::memory_order_relaxed);
  while (!retired_events.compare_exchange_weak(retired->next, retired, std::memory_order_release)) {
  }
}

void retire(DriverEvent&& event) noexcept {
  if (!event) return;
  auto* const retired = new (std::nothrow) RetiredEvent;
  if (retired == nullptr) {
    event.release();
    return report_error(CUDA_ERROR_OUT_OF_MEMORY, "cuevent::retire");
  }
  retired->event = std::move(event);
  push_retired(retired);
}

std::size_t collect() noexcept {
  // The whole list at once: each collector has its own, and nothing is popped that another may be looking at.
  RetiredEvent* retired = retired_events.exchange(nullptr, std::memory_order_acquire);
  std::size_t count = 0;
  while (retired != nullptr) {
    RetiredEvent* const next = retired->next;
    if (retired->event) ++count; // a graph that was refused an event leaves an empty one
    delete retired;
    retired = next;
  }
  return count;
}

} // namespace cuevent
