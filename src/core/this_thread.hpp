// SPDX-License-Identifier: MIT
// Identifies the calling thread. Internal to the library.
#pragma once

#include "core/bits.hpp"

#include <cuevent/version.hpp>

#include <pthread.h>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Identifies a thread, the same in each copy of cuevent in the process: a scope can begin in the code of one
/// copy and end in that of another, because the linker keeps one definition of each inline function.
inline const void* this_thread() noexcept { return same_bytes<const void*>(pthread_self()); }

}} // namespace cuevent::CUEVENT_ABI
