// SPDX-License-Identifier: MIT
/// \file
/// \brief EventFlags, RecordFlags and WaitFlags: how an event is made, recorded and waited for.
///
/// Flags are combined with `|` and tested with `&`. text.hpp writes them as text.
/// Thread-safety: plain values.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
#pragma once

#include <cuevent/version.hpp>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// How an event is made and how it ends. These are the driver's CU_EVENT_* bits, with two
/// differences: timing is opt-in, and `retire` is an addition of cuevent.
enum class EventFlags : unsigned {
  none = 0,
  blocking_sync = 1, ///< synchronize() blocks the thread instead of spinning, and wakes later
  interprocess = 4,  ///< can be exported to another process; excludes timing; see wait()
  timing = 0x100,    ///< elapsed_time() works; a record costs several times as much
  retire = 0x200,    ///< the destructor retires the event: retired_events.hpp
};
constexpr EventFlags operator|(EventFlags a, EventFlags b) noexcept {
  return EventFlags(unsigned(a) | unsigned(b));
}
constexpr EventFlags operator&(EventFlags a, EventFlags b) noexcept {
  return EventFlags(unsigned(a) & unsigned(b));
}

/// How an event is recorded: the driver's CU_EVENT_RECORD_* bits, and `external_in_capture`, an
/// addition of cuevent.
enum class RecordFlags : unsigned {
  none = 0,
  /// In a captured stream: adds a node that records at each launch of the graph. Neither forks nor
  /// joins streams. The event is pending until the node has run in the last launch.
  external = 1,
  /// external if the stream is being captured, else none. Driver function: cuStreamIsCapturing.
  external_in_capture = 0x100,
};
constexpr RecordFlags operator|(RecordFlags a, RecordFlags b) noexcept {
  return RecordFlags(unsigned(a) | unsigned(b));
}
constexpr RecordFlags operator&(RecordFlags a, RecordFlags b) noexcept {
  return RecordFlags(unsigned(a) & unsigned(b));
}

/// How a stream waits for an event: the driver's CU_EVENT_WAIT_* bits, and `external_in_capture`,
/// an addition of cuevent.
enum class WaitFlags : unsigned {
  none = 0,
  /// In a captured stream: adds a node that waits at each launch of the graph. Neither forks nor
  /// joins streams.
  external = 1,
  /// external if the stream is being captured, else none. Driver function: cuStreamIsCapturing.
  external_in_capture = 0x100,
};
constexpr WaitFlags operator|(WaitFlags a, WaitFlags b) noexcept {
  return WaitFlags(unsigned(a) | unsigned(b));
}
constexpr WaitFlags operator&(WaitFlags a, WaitFlags b) noexcept {
  return WaitFlags(unsigned(a) & unsigned(b));
}

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
