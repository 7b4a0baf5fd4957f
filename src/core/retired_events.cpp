// SPDX-License-Identifier: MIT
#include "core/retired_events.hpp"

#include "core/this_thread.hpp"

#include <new>

namespace cuevent {

constinit RetiredList released_by_graphs;
thread_local constinit int retire_scopes = 0;

namespace {

constinit RetiredList retired_by_program;

} // namespace

void RetiredList::push(RetiredEvent* retired) noexcept {
  if (retired->event)
    size_.fetch_add(1, std::memory_order_relaxed); // a failed Graph::retain leaves an empty entry
  retired->next = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(retired->next, retired, std::memory_order_release)) {
  }
}

std::size_t RetiredList::destroy_all() noexcept {
  // Takes the whole list at once. Each caller gets its own list, so no thread pops a node that
  // another thread may be reading.
  RetiredEvent* retired = newest_.exchange(nullptr, std::memory_order_acquire);
  std::size_t count = 0;
  while (retired != nullptr) {
    RetiredEvent* const next = retired->next;
    if (retired->event) {
      ++count;
      const CUresult result = retired->event.try_close();
      if (result != CUDA_SUCCESS) report_error(result, "cuEventDestroy");
    }
    delete retired;
    retired = next;
  }
  size_.fetch_sub(count, std::memory_order_relaxed);
  return count;
}

void retire(DriverEvent&& event) noexcept {
  if (!event) return;
  auto* const retired = new (std::nothrow) RetiredEvent;
  if (retired == nullptr) {
    event.release();
    return report_error(CUDA_ERROR_OUT_OF_MEMORY, "cuevent::retire");
  }
  retired->event.swap(event);
  retired_by_program.push(retired);
}

RetireScope::RetireScope() noexcept : thread_(this_thread()) { ++retire_scopes; }

RetireScope::~RetireScope() {
  if (thread_ == this_thread())
    --retire_scopes;
  else
    report_error(CUDA_ERROR_INVALID_VALUE, "RetireScope on another thread");
}

std::size_t retired_events() noexcept { return retired_by_program.size() + released_by_graphs.size(); }

std::size_t destroy_retired() noexcept {
  return retired_by_program.destroy_all() + released_by_graphs.destroy_all();
}

std::size_t collect() noexcept { return destroy_retired(); }

} // namespace cuevent
