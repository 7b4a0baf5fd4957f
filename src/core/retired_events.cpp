// SPDX-License-Identifier: MIT
#include "core/retired_events.hpp"

#include "core/status.hpp"

#include <cuevent/error.hpp>

#include <memory>
#include <new>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

constinit RetiredList retired_by_program;
thread_local constinit int retire_scopes = 0;

void RetiredEvent::destroy(RetiredObject* self) {
  const std::unique_ptr<RetiredEvent> retired(static_cast<RetiredEvent*>(self));
  if (!retired->holds) return;
  report_end(retired->event.try_close(), "cuEventDestroy");
}

void RetiredList::push(RetiredObject* retired) noexcept {
  if (retired->holds)
    size_.fetch_add(1, std::memory_order_relaxed); // a failed Graph::retain leaves an empty entry
  retired->next = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(retired->next, retired, std::memory_order_release)) {
  }
}

void retire(DriverEvent&& event) noexcept {
  if (!event) return;
  auto* const retired = new (std::nothrow) RetiredEvent;
  if (retired == nullptr) {
    static_cast<void>(event.release());
    return report_error(CUDA_ERROR_OUT_OF_MEMORY, "cuevent::retire");
  }
  retired->hold(std::move(event));
  retired_by_program.push(retired);
}

}} // namespace cuevent::CUEVENT_ABI
