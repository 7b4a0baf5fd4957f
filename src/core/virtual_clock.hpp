// SPDX-License-Identifier: MIT
// Whether a driver has a clock of its own. Internal to the library.
#pragma once

#include <cuevent/driver.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// True for a simulated driver in stepped mode. False if the clock is std::chrono::steady_clock. No driver
/// call.
bool has_virtual_clock(const DriverTable& table) noexcept;

}} // namespace cuevent::CUEVENT_ABI
