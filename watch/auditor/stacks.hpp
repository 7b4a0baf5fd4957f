// SPDX-License-Identifier: MIT
// The stacks of calls. Walking one takes microseconds, so each thread keeps the stacks that it has walked,
// and checks in the memory of the stack whether one of them is still there.
#pragma once

#include "auditor/python_frames.hpp"
#include "auditor/recorder.hpp"

namespace watch {

/// The memory for the stacks of the thread in this slot.
CachedStack* stacks_of_slot(std::uint32_t slot);

/// The number of the stack whose innermost frame returns to `address`; `above` is the stack pointer after
/// that return. 0 if there is no room.
/// With Python frames, it takes tens of microseconds in a thread that runs Python.
[[gnu::hot]] std::uint32_t stack_number(Thread& thread, std::uintptr_t address, std::uintptr_t above,
                                        bool with_python);

/// The number of a stack of the Python frames of a thread alone. 0 if it has none.
std::uint32_t python_stack_number(PythonState thread);

} // namespace watch
