// SPDX-License-Identifier: MIT
// Errors that name an event, its context and what to do. Internal to the library. The members
// DriverEvent::fail_*, which run after a failed call, are in the same .cpp, or with what they are for.
#pragma once

#include <cuevent/driver_event.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

inline bool has(EventFlags flags, EventFlags flag) noexcept { return (flags & flag) == flag; }

/// "context 0x55d0c0ffee (device 0)"
struct ContextName {
  [[gnu::cold]] ContextName(const Driver& driver, CUcontext handle) noexcept;
  explicit ContextName(const Context& context) noexcept
      : ContextName(context.driver(), context.native_handle()) {}

  char text[64];
};

[[noreturn, gnu::cold]] void fail_recorded_in_capture(const char* call, const char* which);
[[noreturn, gnu::cold]] void fail_empty(const char* call, const char* which = "the event");

[[noreturn, gnu::cold]] void fail_unrecorded(const char* call, const char* which = "the event");

/// The event is on lease, and what the call gives it to would outlive the lease.
[[noreturn, gnu::cold]] void fail_lease(const char* call);

/// The driver would crash if a stream of `other` waited for the interprocess event.
[[noreturn, gnu::cold]] void fail_interprocess(const char* call, const ContextName& own, const char* other);

[[gnu::cold]] void require_same_driver(const Context& given, const Context& own, const char* call);

}} // namespace cuevent::CUEVENT_ABI
