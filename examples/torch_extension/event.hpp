// SPDX-License-Identifier: MIT
#pragma once

#include <cuevent/driver_event.hpp>

/// Records `event` on PyTorch's current stream of the event's device.
void record_on_current_stream(cuevent::DriverEvent& event);
