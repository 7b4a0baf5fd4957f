// SPDX-License-Identifier: MIT
// Counts the allocations of a thread, in a program that is linked with allocations.cpp.
#pragma once

#include <cstddef>

namespace test {

/// The number of calls of operator new on this thread so far, without the aligned operators.
std::size_t allocations_of_this_thread() noexcept;

} // namespace test
