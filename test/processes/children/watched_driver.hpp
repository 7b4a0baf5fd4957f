// SPDX-License-Identifier: MIT
// The driver of this process behind a watch. The watch ends the process at a call that must not be made.
#pragma once

#include <cuevent/driver.hpp>

#include <string>
#include <string_view>

namespace process {

/// The file of the driver, as dlopen takes it.
std::string driver_library();

/// The driver that Driver::instance() loads. It must not be called once it has begun to unload,
/// which begins, as in a real driver, in an exit handler that cuInit registers.
cuevent::Driver watched_driver();

/// From now on, no function of the watched driver's table may be called, or only this function may
/// not be called.
void forbid_calls() noexcept;
void forbid_call(std::string_view name) noexcept;

/// From now on, this function of the watched driver's table does nothing and returns `result`.
void answer_instead(std::string_view name, CUresult result) noexcept;

} // namespace process
