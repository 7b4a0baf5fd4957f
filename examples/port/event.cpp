// SPDX-License-Identifier: MIT
#include "event.hpp"

#include <cuevent/event_pools.hpp>

#include <string>
#include <utility>

namespace ferry {

namespace {

using cuevent::PooledEvent;

void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    throw Error(std::string(call) + ": " + cuevent::driver_category().message(result));
}

/// Never destroyed, because an event may end in the destructor of a static object.
cuevent::EventPools& pools() {
  static auto* const all = [] {
    cuevent::Driver driver;
    check(cuevent::Driver::try_load(driver), "libcuda");
    return new cuevent::EventPools(driver, cuevent::EventFlags::none, cuevent::FreshLease::reads_new);
  }();
  return *all;
}

} // namespace

Event::Event() {
  PooledEvent lease;
  check(pools().try_acquire_current(lease), "Event");
  lease_ = std::move(lease).release();
}
Event::Event(Event&& other) noexcept : lease_(std::exchange(other.lease_, nullptr)) {}
Event& Event::operator=(Event&& other) noexcept {
  Event taken(std::move(other));
  std::swap(lease_, taken.lease_);
  return *this;
}
Event::~Event() { PooledEvent::adopt(lease_); }

void Event::record(CUstream stream) { check(PooledEvent::borrow(lease_).try_record(stream), "record"); }
void Event::wait(CUstream stream) const { check(PooledEvent::borrow(lease_).try_wait(stream), "wait"); }
void Event::synchronize() const { check(PooledEvent::borrow(lease_).try_synchronize(), "synchronize"); }
bool Event::done() const {
  const CUresult result = PooledEvent::borrow(lease_).try_query();
  if (result != CUDA_ERROR_NOT_READY) check(result, "done");
  return result == CUDA_SUCCESS;
}
CUevent Event::get() const noexcept { return PooledEvent::borrow(lease_).native_handle(); }

std::size_t idle_events(CUcontext context) { return pools().counters(context).idle; }

} // namespace ferry
