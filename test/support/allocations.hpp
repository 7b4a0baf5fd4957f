// SPDX-License-Identifier: MIT
// How often a thread has asked for memory, in a program that is linked with allocations.cpp.
#pragma once

#include <cstddef>

namespace test {

/// The calls of operator new on this thread so far, the aligned ones not included.
std::size_t allocations_of_this_thread() noexcept;

} // namespace test
