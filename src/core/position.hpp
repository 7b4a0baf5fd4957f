// SPDX-License-Identifier: MIT
// Places in the work of a stream. Inside the library only.
#pragma once

#include <cuevent/version.hpp>

#include <cstdint>
#include <limits>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The number of a boundary in its stream, or in its capture, from 0.
using Position = std::uint64_t;
inline constexpr Position no_position = std::numeric_limits<Position>::max();

}} // namespace cuevent::CUEVENT_ABI
