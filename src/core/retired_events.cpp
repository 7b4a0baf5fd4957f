// SPDX-License-Identifier: MIT
#include "core/retired_events.hpp"

#include "core/status.hpp"
#include "core/this_thread.hpp"

#include <cuevent/error.hpp>

#include <memory>
#include <new>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

constinit RetiredList released_by_graphs;
constinit RetiredList objects_of_graphs;
thread_local constinit int retire_scopes = 0;

namespace {

constinit RetiredList retired_by_program;

void end(RetiredObject* retired) noexcept {
  try {
    retired->end(retired);
  } catch (const DriverError& error) {
    report_error(error.result(), error.call());
  } catch (...) {
    report_error(CUDA_ERROR_UNKNOWN, "Graph::when_destroyed");
  }
}

} // namespace

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

std::size_t RetiredList::destroy_all() noexcept {
  // Takes the whole list at once. Each caller gets its own list, so no thread pops a node that
  // another thread may be reading.
  RetiredObject* retired = newest_.exchange(nullptr, std::memory_order_acquire);
  std::size_t count = 0;
  while (retired != nullptr) {
    RetiredObject* const next = retired->next;
    if (retired->holds) ++count;
    end(retired);
    retired = next;
  }
  size_.fetch_sub(count, std::memory_order_relaxed);
  return count;
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

RetireScope::RetireScope() noexcept : thread_(this_thread()) { ++retire_scopes; }

RetireScope::~RetireScope() {
  if (thread_ == this_thread())
    --retire_scopes;
  else
    report_error(CUDA_ERROR_INVALID_VALUE, "RetireScope on another thread");
}

std::size_t retired_events() noexcept {
  return retired_by_program.size() + released_by_graphs.size() + objects_of_graphs.size();
}

std::size_t destroy_retired() noexcept {
  return retired_by_program.destroy_all() + released_by_graphs.destroy_all() +
         objects_of_graphs.destroy_all();
}

}} // namespace cuevent::CUEVENT_ABI
