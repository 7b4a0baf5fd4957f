// SPDX-License-Identifier: MIT
// The interprocess events of this process. A wait for one in another context crashes the driver, so such a
// wait has to be recognised before the driver is called, and not by the reader of the records.
#pragma once

#include "protocol/calls.hpp"

namespace watch {

/// Remembers an event that was created with CU_EVENT_INTERPROCESS, or opened, in this context.
void add_interprocess_event(CUevent event, CUcontext context);

void remove_interprocess_event(CUevent event);

/// The context of the event. Null if it is not an interprocess event. One load while there is none.
CUcontext context_of_interprocess_event(CUevent event);

} // namespace watch
