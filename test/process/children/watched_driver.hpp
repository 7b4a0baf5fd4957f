// SPDX-License-Identifier: MIT
// The driver of this process behind a watch, which ends the process at a call that must not be made.
#pragma once

#include <cuevent/driver.hpp>

#include <string>
#include <string_view>

namespace process {

/// The file of the driver, as for dlopen.
std::string driver_library();

/// The driver that Driver::instance() loads, which from the moment in which it begins to unload may not
/// be called any more: as with a real one, that is an exit handler registered by cuInit.
cuevent::Driver watched_driver();

/// From now on no function of the watched driver's table may be called, or not this one.
void forbid_calls() noexcept;
void forbid_call(std::string_view name) noexcept;

/// From now on this function of the watched driver's table does nothing and returns `result`.
void answer_instead(std::string_view name, CUresult result) noexcept;

} // namespace process
