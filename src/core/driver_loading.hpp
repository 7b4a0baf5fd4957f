// SPDX-License-Identifier: MIT
// How a driver is loaded, and what it is too old for. Internal to the library.
#pragma once

#include <cuevent/driver.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The two numbers of a CUDA version such as 12040, for a text: 12 and 4.
constexpr int major_of(int version) noexcept { return version / 1000; }
constexpr int minor_of(int version) noexcept { return version % 1000 / 10; }

/// Loads a library. Throws as Driver::instance().
[[gnu::cold]] GetProcAddress load_driver(const char* library);

/// For a `call` that needs the function `name`, which drivers have from CUDA `version` on.
[[noreturn, gnu::cold]] void fail_unsupported(const DriverTable& table, const char* call, const char* name,
                                              int version);

}} // namespace cuevent::CUEVENT_ABI
