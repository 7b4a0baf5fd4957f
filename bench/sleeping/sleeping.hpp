// SPDX-License-Identifier: MIT
// The parts of the program `sleeping`. Each prints its tables, and divides its counts by `divisor`.
#pragma once

#include "testbed.hpp"

namespace sleeping {

void one_stream(Testbed& testbed, int divisor);
/// 64 streams whose ends come in any order.
void many_streams(Testbed& testbed, int divisor);
/// Whether waiting side streams hold up other streams.
void held_up(Testbed& testbed, int divisor);

} // namespace sleeping
