// SPDX-License-Identifier: MIT
// Events that outlive their context can be closed and destroyed, and nothing else.
#include "scenario.hpp"
#include "watched_driver.hpp"

#include <cuevent/error_hook.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/retired_events.hpp>
#include <cuevent/stage_timer.hpp>

#include <atomic>
#include <memory>

namespace process {

namespace {

using namespace cuevent;

std::atomic<int> told{0};
void count(CUresult, const char*, void*) noexcept { ++told; }

/// Many events, some of them recorded.
std::vector<DriverEvent> events_of(const Context& context) {
  std::vector<DriverEvent> events;
  for (int i = 0; i < 64; ++i) {
    events.emplace_back(context, i % 2 == 0 ? EventFlags::timing : EventFlags::none);
    if (i % 4 < 2) events.back().record(nullptr);
  }
  for (const DriverEvent& event : events)
    event.synchronize();
  return events;
}

/// Overwrites memory that was freed with the context.
void use_freed_memory() {
  std::vector<std::unique_ptr<unsigned char[]>> blocks;
  for (std::size_t size = 16; size < 65'536; size += size / 8)
    for (int i = 0; i < 16; ++i)
      std::uninitialized_fill_n(blocks.emplace_back(new unsigned char[size]).get(), size, 0xa5);
}

DriverEvent taken_from(std::vector<DriverEvent>& events) {
  DriverEvent taken = std::move(events.back());
  events.pop_back();
  return taken;
}

/// Every way in which an event can end.
void end_all(std::vector<DriverEvent> events) {
  forbid_call("cuEventDestroy");
  use_freed_memory();

  step("close of an event of a lost context");
  DriverEvent closed = taken_from(events);
  expect_throw<ContextIsDestroyed>([&] { closed.close(); }, "close");
  expect(!closed, "a closed event is empty");
  closed = taken_from(events);
  expect(closed.try_close() == CUDA_ERROR_CONTEXT_IS_DESTROYED, "try_close returns that the context is lost");
  expect(!closed, "an event closed by try_close is empty");

  step("destruction of an event of a lost context");
  taken_from(events);
  DriverEvent assigned_to = taken_from(events);
  assigned_to = DriverEvent();
  retire(taken_from(events));
  expect(destroy_retired() == 1, "a retired event is collected");

  const ErrorHook before = set_error_hook(count);
  retire(taken_from(events));
  expect(destroy_retired() == 1, "a retired event is collected");
  events.clear();
  expect(told == 0, "the hook is told nothing: the events went with the context");
  set_error_hook(before);
}

/// Nothing can be made in `lost`, whose handle names a later context that is current.
void make_nothing_in(const Context& lost) {
  const DriverTable& table = lost.driver().table();
  CUcontext popped = nullptr;
  expect(table.cuCtxPushCurrent_v4000(lost.native_handle()) == CUDA_SUCCESS, "the later context is current");
  forbid_call("cuEventCreate");
  forbid_call("cuStreamCreate");
  step("objects of a lost context, while a later one with its handle is current");
  expect_throw<ContextIsDestroyed>([&] { const DriverEvent event(lost); }, "DriverEvent");
  expect_throw<ContextIsDestroyed>([&] { const ContextGuard guard(lost); }, "ContextGuard");
  expect_throw<ContextIsDestroyed>([&] { EventPool(lost).acquire(); }, "EventPool");
  expect_throw<ContextIsDestroyed>([&] { const StageTimer timer(lost); }, "StageTimer");
  expect_throw<ContextIsDestroyed>([&] { lost.device(); }, "Context::device");
  table.cuCtxPopCurrent_v4000(&popped);
}

template <class Function>
Function entry(const Driver& driver, const char* name, int version) {
  return driver.entry_point<Function>(name, version);
}

void borrowed() {
  const Driver driver = watched_driver();
  CUcontext handle = nullptr, popped = nullptr;
  entry<PFN_cuCtxCreate_v3020>(driver, "cuCtxCreate", 3020)(&handle, 0, 0);
  entry<PFN_cuCtxPopCurrent_v4000>(driver, "cuCtxPopCurrent", 4000)(&popped);
  std::vector<DriverEvent> events = events_of(Context::borrow(handle, driver));
  const CUresult destroyed = entry<PFN_cuCtxDestroy_v4000>(driver, "cuCtxDestroy", 4000)(handle);
  expect(destroyed == CUDA_SUCCESS, "the context can be destroyed");
  end_all(std::move(events));
}

/// Destroys the context without the Context that owns it.
void created() {
  const Driver driver = watched_driver();
  const Context context = Context::create(0, driver);
  std::vector<DriverEvent> events = events_of(context);
  entry<PFN_cuCtxDestroy_v4000>(driver, "cuCtxDestroy", 4000)(context.native_handle());
  forbid_call("cuCtxDestroy");
  end_all(std::move(events));
}

void primary() {
  const Driver driver = watched_driver();
  std::vector<DriverEvent> events = events_of(Context::primary(0, driver));
  entry<PFN_cuDevicePrimaryCtxReset_v11000>(driver, "cuDevicePrimaryCtxReset", 11000)(0);
  end_all(std::move(events));
}

/// The handle then names a live context that has none of the events.
void primary_retained_again() {
  const Driver driver = watched_driver();
  std::vector<DriverEvent> events = events_of(Context::primary(0, driver));
  CUcontext same = nullptr;
  entry<PFN_cuDevicePrimaryCtxReset_v11000>(driver, "cuDevicePrimaryCtxReset", 11000)(0);
  entry<PFN_cuDevicePrimaryCtxRelease_v11000>(driver, "cuDevicePrimaryCtxRelease", 11000)(0);
  entry<PFN_cuDevicePrimaryCtxRetain_v7000>(driver, "cuDevicePrimaryCtxRetain", 7000)(&same, 0);
  const Context lost = events.front().context();
  expect(same == lost.native_handle(), "the primary context has its handle again");
  make_nothing_in(lost);
  end_all(std::move(events));
}

/// The same for borrowed contexts, each borrowed in another way, and for a pool in one of them.
void borrowed_primary_retained_again() {
  const Driver driver = watched_driver();
  const auto retain = entry<PFN_cuDevicePrimaryCtxRetain_v7000>(driver, "cuDevicePrimaryCtxRetain", 7000);
  CUcontext handle = nullptr, same = nullptr;
  CUstream stream = nullptr;
  retain(&handle, 0);
  const Context borrowed = Context::borrow(handle, driver);
  std::vector<DriverEvent> events = events_of(borrowed), of_streams, of_current;
  EventPool pool(borrowed);
  pool.reserve(8);
  {
    const ContextGuard current(borrowed);
    of_current = events_of(Context::current(driver));
    entry<PFN_cuStreamCreate_v2000>(driver, "cuStreamCreate", 2000)(&stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 8; ++i)
      of_streams.push_back(DriverEvent::for_stream(stream, EventFlags::none, driver));
  }
  entry<PFN_cuDevicePrimaryCtxReset_v11000>(driver, "cuDevicePrimaryCtxReset", 11000)(0);
  entry<PFN_cuDevicePrimaryCtxRelease_v11000>(driver, "cuDevicePrimaryCtxRelease", 11000)(0);
  retain(&same, 0);
  expect(same == handle, "the primary context has its handle again");
  expect(borrowed.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED,
         "the borrowed context differs from the next one");
  expect(Context::borrow(same, driver) != borrowed, "the next context is not equal to the one before");
  make_nothing_in(borrowed);
  forbid_call("cuEventDestroy");
  pool = EventPool();
  of_streams.clear();
  of_current.clear();
  end_all(std::move(events));
}

} // namespace

std::vector<Scenario> lost_context_scenarios() {
  return {{"lost-borrowed-context", borrowed},
          {"lost-created-context", created},
          {"lost-primary-context", primary},
          {"lost-primary-context-retained-again", primary_retained_again},
          {"lost-borrowed-primary-context-retained-again", borrowed_primary_retained_again}};
}

} // namespace process
