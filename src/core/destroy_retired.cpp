// SPDX-License-Identifier: MIT
#include "core/retired_events.hpp"

#include "core/exceptions.hpp"
#include "core/this_thread.hpp"

#include <cuevent/error.hpp>

#include <atomic>
#include <cstddef>

namespace cuevent { inline namespace CUEVENT_ABI {

constinit RetiredList released_by_graphs;
constinit RetiredList objects_of_graphs;

namespace {

void end(RetiredObject* retired) noexcept {
  catching([&] { retired->end(retired); },
           [](const DriverError* error) {
             if (error != nullptr)
               report_error(error->result(), error->call());
             else
               report_error(CUDA_ERROR_UNKNOWN, "Graph::when_destroyed");
           });
}

} // namespace

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
