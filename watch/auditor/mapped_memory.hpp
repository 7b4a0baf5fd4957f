// SPDX-License-Identifier: MIT
// What the kernel says about memory of this process.
#pragma once

#include <cstdint>

namespace watch {

/// Whether all of it is mapped, may be read and written, and cannot be run. Reads a file, which takes tens of
/// microseconds.
bool is_readable_and_writable(std::uint64_t begin, std::uint64_t end);

} // namespace watch
