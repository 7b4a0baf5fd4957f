// SPDX-License-Identifier: MIT
// An extension that contains a cuevent. Two libraries have it, with versions of different names. EXTEND names
// its function.
#include "extension.hpp"

#include <cuevent/driver_event.hpp>
#include <cuevent/event_pool.hpp>

#include <typeinfo>

extern "C" [[gnu::visibility("default")]] Extension EXTEND() {
  return {[] { return typeid(cuevent::DriverEvent).name(); },
          [](CUcontext context, CUstream stream) {
            cuevent::EventPool pool(cuevent::Context::borrow(context));
            const cuevent::PooledEvent event = pool.acquire();
            event.record(stream);
            event.synchronize();
            return event.query();
          },
          [] { cuevent::throw_error(CUDA_ERROR_INVALID_VALUE, "cuEventCreate"); }};
}
