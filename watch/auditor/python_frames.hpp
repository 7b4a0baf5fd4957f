// SPDX-License-Identifier: MIT
// The Python functions that a thread is in, read from where CPython 3.8 to 3.14 keep them: that needs neither
// the lock of the interpreter nor memory. Other versions have no frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <link.h>

namespace watch {

using PythonState = void*; // PyThreadState*

struct PythonLayout;

/// The interpreter of the program.
struct Python {
  const link_map* interpreter = nullptr; // null: none whose frames are known
  const PythonLayout* layout = nullptr;
  PythonState (*state_of_this_thread)() = nullptr;
  int (*line_of_frame)(const void*) = nullptr; // to 3.10
  int (*is_finalizing)() = nullptr;
};

/// The program or libpython has been mapped: looks for the interpreter in it.
void find_python(const link_map& map);

/// The library is unmapped.
void forget_python(const link_map& map);

/// Null in a thread that never ran Python, and if the interpreter offers no frames.
[[gnu::hot]] PythonState python_state_of_this_thread();

/// Writes lines `  File "train.py", line 12 in step`, innermost first. Returns their length; 0 if there
/// are none. The thread of this state must not run Python meanwhile.
std::size_t python_frames(PythonState thread, char* text, std::size_t room);

/// A number that stands for these frames and their lines.
std::uint64_t python_place(PythonState thread);

/// Whether the interpreter may be freeing the states of its other threads.
bool python_is_ending();

} // namespace watch
