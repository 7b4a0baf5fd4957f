// SPDX-License-Identifier: MIT
// A shared library with cuevent inside, for the test library-size. USES: 0 nothing, 1 DriverEvent, 2
// EventPool too.
#if USES > 0
#include <cuevent/event_pool.hpp>

using namespace cuevent;
#endif

#if USES == 0
extern "C" __attribute__((visibility("default"))) int work(const void* context, const void* stream) {
  return context == stream;
}
#else
namespace {

CUresult use_event(const Context& context, CUstream stream) {
  DriverEvent event(context);
  event.record(stream);
  event.wait(stream);
  event.synchronize();
  DriverEvent another;
  if (const CUresult result = DriverEvent::try_create(another, context); result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = another.try_record(stream); result != CUDA_SUCCESS) return result;
  if (const CUresult result = another.try_wait(stream); result != CUDA_SUCCESS) return result;
  return another.try_query();
}

#if USES > 1
CUresult use_pool(const Context& context, CUstream stream) {
  EventPool pool(context);
  PooledEvent event = pool.acquire();
  event.record(stream);
  event.wait(stream);
  PooledEvent another;
  return pool.try_acquire(another);
}
#endif

} // namespace

extern "C" __attribute__((visibility("default"))) int work(CUcontext handle, CUstream stream) {
  const Context context = Context::borrow(handle, Driver::instance());
  CUresult result = use_event(context, stream);
#if USES > 1
  if (result == CUDA_SUCCESS) result = use_pool(context, stream);
#endif
  return result;
}
#endif
