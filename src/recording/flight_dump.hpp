// SPDX-License-Identifier: MIT
// What FlightRecorder::dump() writes. Internal to the library.
#pragma once

#include "recording/flight_streams.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

/// Writes the last places of each stream. Async-signal-safe. No driver call. Can change errno.
void dump_streams(int file, const RecordedStreams& streams, long long now) noexcept;

}} // namespace cuevent::CUEVENT_ABI
