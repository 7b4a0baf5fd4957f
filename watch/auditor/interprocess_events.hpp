// SPDX-License-Identifier: MIT
// The interprocess events of this process. A wait for one in another context crashes the driver, so such a
// wait has to be recognised before the driver is called, and not by the reader of the records.
#pragma once

#include "auditor/lock.hpp"
#include "protocol/calls.hpp"

#include <atomic>
#include <cstddef>

namespace watch {

struct InterprocessEvents {
  struct Known {
    CUevent event;
    CUcontext context;
  };

  Lock lock;
  std::atomic<std::size_t> count; // changed with the lock, read without it
  Known known[4096];              // more are not checked
};

/// Remembers an event that was created with CU_EVENT_INTERPROCESS, or opened, in this context.
void add_interprocess_event(CUevent event, CUcontext context);

void remove_interprocess_event(CUevent event);

/// The context of the event. Null if it is not an interprocess event. One load while there is none.
CUcontext context_of_interprocess_event(CUevent event);

} // namespace watch
