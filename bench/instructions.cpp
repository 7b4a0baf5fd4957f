// SPDX-License-Identifier: MIT
// What cuevent adds to a driver call, in instructions. Runs each operation once through the driver's table
// and once through DriverEvent, on a driver of empty functions, and callgrind counts.
// bench/count-instructions runs this program.
#include "empty_driver.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>

using namespace cuevent;
using empty::context_handle;

namespace {

long allocations = 0;

// Hide all memory from the compiler in each round, and the value too, as in a real caller.
void hide_memory() { asm volatile("" : : : "memory"); }
template <class Value>
void hide(Value& value) {
  asm volatile("" : "+r"(value) : : "memory");
}

} // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// bench/count-instructions uses these names and the number of rounds.
extern "C" {

constexpr int rounds = 1000;

[[gnu::noinline]] void raw_record(const DriverTable* table, CUevent event, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    if (table->cuEventRecord_v2000(event, stream) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_record(DriverEvent& event, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    event.record(stream);
  }
}

[[gnu::noinline]] void raw_wait(const DriverTable* table, CUevent event, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    if (table->cuStreamWaitEvent_v3020(stream, event, 0) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_wait(DriverEvent& event, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    event.wait(stream);
  }
}

[[gnu::noinline]] void raw_query(const DriverTable* table, CUevent event) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    if (table->cuEventQuery_v2000(event) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_query(DriverEvent& event) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    if (!event.query()) std::abort();
  }
}

[[gnu::noinline]] void raw_synchronize(const DriverTable* table, CUevent event) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    if (table->cuEventSynchronize_v2000(event) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_synchronize(DriverEvent& event) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    event.synchronize();
  }
}

[[gnu::noinline]] float raw_elapsed(const DriverTable* table, CUevent event) {
  float sum = 0;
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    float time = 0;
    if (table->cuEventElapsedTime_v12080(&time, event, event) != CUDA_SUCCESS) std::abort();
    sum += time;
  }
  return sum;
}
[[gnu::noinline]] float cuevent_elapsed(DriverEvent& event, DriverEvent& end) {
  float sum = 0;
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    sum += event.elapsed_time(end).count();
  }
  return sum;
}

[[gnu::noinline]] void raw_create_destroy(const DriverTable* table) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    CUevent event = nullptr;
    if (table->cuEventCreate_v2000(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) std::abort();
    if (table->cuEventDestroy_v4000(event) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_create_destroy(const Context& context) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    const DriverEvent event(context);
  }
}
[[gnu::noinline]] void cuevent_create_destroy_owned(const Context& context) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    const DriverEvent event(context);
  }
}

// The same calls through an EventRef: to a DriverEvent (ref), to a CUevent (raw) and to a lease (lease).
#define CALLS_THROUGH(kind)                                                                                  \
  [[gnu::noinline]] void cuevent_##kind##_record(const EventRef& event, CUstream stream) {                   \
    for (int i = 0; i < rounds; ++i) {                                                                       \
      hide(stream);                                                                                          \
      event.record(stream);                                                                                  \
    }                                                                                                        \
  }                                                                                                          \
  [[gnu::noinline]] void cuevent_##kind##_wait(const EventRef& event, CUstream stream) {                     \
    for (int i = 0; i < rounds; ++i) {                                                                       \
      hide(stream);                                                                                          \
      event.wait(stream);                                                                                    \
    }                                                                                                        \
  }                                                                                                          \
  [[gnu::noinline]] void cuevent_##kind##_query(const EventRef& event) {                                     \
    for (int i = 0; i < rounds; ++i) {                                                                       \
      hide_memory();                                                                                         \
      if (!event.query()) std::abort();                                                                      \
    }                                                                                                        \
  }                                                                                                          \
  [[gnu::noinline]] void cuevent_##kind##_synchronize(const EventRef& event) {                               \
    for (int i = 0; i < rounds; ++i) {                                                                       \
      hide_memory();                                                                                         \
      event.synchronize();                                                                                   \
    }                                                                                                        \
  }                                                                                                          \
  [[gnu::noinline]] float cuevent_##kind##_elapsed(const EventRef& event, const EventRef& end) {             \
    float sum = 0;                                                                                           \
    for (int i = 0; i < rounds; ++i) {                                                                       \
      hide_memory();                                                                                         \
      sum += event.elapsed_time(end).count();                                                                \
    }                                                                                                        \
    return sum;                                                                                              \
  }
CALLS_THROUGH(ref)
CALLS_THROUGH(raw)
CALLS_THROUGH(lease)

// Over the two queries of the driver that find the stream's context.
[[gnu::noinline]] void raw_pools_acquire(const DriverTable* table, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    CUcontext context = nullptr;
    unsigned long long id = 0;
    if (table->cuStreamGetCtx_v9020(stream, &context) != CUDA_SUCCESS) std::abort();
    if (table->cuCtxGetId_v12000(context, &id) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_pools_acquire(EventPools& pools, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    const PooledEvent lease = pools.acquire(stream);
  }
}
[[gnu::noinline]] void cuevent_share(const SharedEvent& lease) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    const SharedEvent copy = lease;
  }
}

// Over the driver calls of a submission. The callbacks run outside.
[[gnu::noinline]] void raw_submit_lane(const DriverTable* table, CUevent event, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    CUstreamCaptureStatus status{};
    if (table->cuStreamIsCapturing_v10000(stream, &status) != CUDA_SUCCESS) std::abort();
    if (table->cuEventRecord_v2000(event, stream) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_submit_lane(const CompletionLane& lane) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    lane.when_complete([](CUresult) {});
  }
}
[[gnu::noinline]] void cuevent_submit_token(const CompletionLane& lane) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    CompletionToken token;
    lane.when_complete([](CUresult) {}, &token);
  }
}

// The cost of a borrowed Context: making it, copying it, and making an event that finds its own context.
[[gnu::noinline]] void raw_borrow(const DriverTable* table, CUcontext context) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    unsigned long long id = 0;
    if (table->cuCtxGetId_v12000(context, &id) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_borrow(const Driver& driver, CUcontext context) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    const Context borrowed = Context::borrow(context, driver);
  }
}

[[gnu::noinline]] void raw_copy() {
  for (int i = 0; i < rounds; ++i)
    hide_memory();
}
[[gnu::noinline]] void cuevent_copy(const Context& context) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    Context copy = context;
    auto* unknown = &copy;
    hide(unknown);
  }
}

[[gnu::noinline]] void raw_for_stream(const DriverTable* table, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    CUcontext context = nullptr;
    CUevent event = nullptr;
    if (table->cuStreamGetCtx_v9020(stream, &context) != CUDA_SUCCESS) std::abort();
    if (table->cuEventCreate_v2000(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) std::abort();
    if (table->cuEventDestroy_v4000(event) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_for_stream(const Driver& driver, CUstream stream) {
  for (int i = 0; i < rounds; ++i) {
    hide(stream);
    const DriverEvent event = DriverEvent::for_stream(stream, EventFlags::none, driver);
  }
}

[[gnu::noinline]] void raw_create_destroy_pushed(const DriverTable* table, CUcontext context) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    CUevent event = nullptr;
    if (table->cuCtxPushCurrent_v4000(context) != CUDA_SUCCESS) std::abort();
    if (table->cuEventCreate_v2000(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) std::abort();
    if (table->cuCtxPopCurrent_v4000(&context) != CUDA_SUCCESS) std::abort();
    if (table->cuEventDestroy_v4000(event) != CUDA_SUCCESS) std::abort();
  }
}
[[gnu::noinline]] void cuevent_create_destroy_pushed(const Context& context) {
  for (int i = 0; i < rounds; ++i) {
    hide_memory();
    const DriverEvent event(context);
  }
}
}

int main() {
  const Driver driver(empty::driver);
  const DriverTable* const table = &driver.table();
  const Context context = Context::borrow(context_handle, driver), owned = Context::primary(0, driver);
  DriverEvent event(context, EventFlags::timing), end(context, EventFlags::timing);
  CUstream const stream = reinterpret_cast<CUstream>(0x5000);

  EventPools pools(driver, EventFlags::timing);
  PooledEvent lease = pools.acquire(stream), lease_end = pools.acquire(stream);
  lease.record(stream);
  lease_end.record(stream);
  const EventRef raw(event.native_handle(), driver), raw_end(end.native_handle(), driver);
  SharedEvent shared = pools.acquire(stream).share();
  static_cast<void>(pools.acquire(stream)); // one idle event, for the operation below
  CompletionQueue queue(context);
  const CompletionLane lane = queue.lane(stream);
  queue.reserve(rounds);
  const auto run_callbacks = [&] {
    if (queue.poll() != rounds) std::abort();
  };
  for (int i = 0; i < rounds; ++i) // from now on, the nodes belong to the stream
    lane.when_complete([](CUresult) {});
  run_callbacks();

  const long before = allocations;
  cuevent_record(event, stream);
  cuevent_wait(event, stream);
  cuevent_query(event);
  cuevent_synchronize(event);
  cuevent_elapsed(event, end);
  cuevent_create_destroy(context);
  cuevent_create_destroy_owned(owned);
  cuevent_ref_record(event, stream);
  cuevent_ref_wait(event, stream);
  cuevent_ref_query(event);
  cuevent_ref_synchronize(event);
  cuevent_ref_elapsed(event, end);
  cuevent_raw_record(raw, stream);
  cuevent_raw_wait(raw, stream);
  cuevent_raw_query(raw);
  cuevent_raw_synchronize(raw);
  cuevent_raw_elapsed(raw, raw_end);
  cuevent_lease_record(lease, stream);
  cuevent_lease_wait(lease, stream);
  cuevent_lease_query(lease);
  cuevent_lease_synchronize(lease);
  cuevent_lease_elapsed(lease, lease_end);
  cuevent_pools_acquire(pools, stream);
  cuevent_share(shared);
  cuevent_submit_lane(lane);
  run_callbacks();
  cuevent_submit_token(lane);
  run_callbacks();
  cuevent_borrow(driver, context_handle);
  cuevent_copy(context);
  cuevent_for_stream(driver, stream);
  empty::current = nullptr;
  cuevent_create_destroy_pushed(context);
  const long made = allocations - before;

  raw_record(table, event.native_handle(), stream);
  raw_wait(table, event.native_handle(), stream);
  raw_query(table, event.native_handle());
  raw_synchronize(table, event.native_handle());
  raw_elapsed(table, event.native_handle());
  raw_create_destroy(table);
  raw_pools_acquire(table, stream);
  raw_submit_lane(table, event.native_handle(), stream);
  raw_borrow(table, context_handle);
  raw_copy();
  raw_for_stream(table, stream);
  raw_create_destroy_pushed(table, context_handle);

  std::printf("allocations in %d rounds of each operation: %ld\n", rounds, made);
  return made == 0 ? 0 : 1;
}
