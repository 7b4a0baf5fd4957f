// SPDX-License-Identifier: MIT
// Code that something calls after the program may have unloaded it. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// From now on, dlclose() does not unload the library or plugin that contains `code`. Its destructors then
/// run when the process exits. Call this before the driver, a graph or a thread gets the address of the code.
/// Returns false if the loader refuses.
///
/// Waits while another thread loads or unloads a library, whose static objects may use cuevent: hold no lock.
bool stay_loaded(const void* code) noexcept;

/// The same for this copy of cuevent. Only the first call waits.
bool stay_loaded() noexcept;

}} // namespace cuevent::CUEVENT_ABI
