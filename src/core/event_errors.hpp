// SPDX-License-Identifier: MIT
// Errors that name an event, its context and what to do. Internal to the library. The members
// DriverEvent::fail_*, which run after a failed call, are in the same .cpp.
#pragma once

#include <cuevent/driver_event.hpp>

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

inline bool has(EventFlags flags, EventFlags flag) noexcept { return (flags & flag) == flag; }

/// "context 0x55d0c0ffee (device 0)"
std::string name_of(const Driver& driver, CUcontext handle);
std::string name_of(const Context& context);

[[noreturn]] void fail_empty(const char* call, const char* which = "the event");

/// The event is on lease, and what the call gives it to would outlive the lease.
[[noreturn]] void fail_lease(const char* call);

/// The driver would crash if a stream of `other` waited for the interprocess event.
[[noreturn]] void fail_interprocess(const char* call, const std::string& own, const std::string& other);

void require_same_driver(const Context& given, const Context& own, const char* call);

}} // namespace cuevent::CUEVENT_ABI
