// SPDX-License-Identifier: MIT
// Functions that take the place of the program's C library's, with Feature::host_uses:
// - those that pass memory to the kernel, which would refuse guarded memory;
// - those that change the protection of memory, which is the program's from then on;
// - those that set the handler of SIGSEGV, or block the signal, which the auditor has to get.
#pragma once

#include <csignal>
#include <cstddef>
#include <link.h>

namespace watch {

inline constexpr std::size_t c_function_limit = 64;

struct CLibrary {
  void* functions[c_function_limit] = {}; // by the place in the table of c_library.cpp
};

/// The loader has mapped a library of the program's namespace.
void replace_c_functions(const link_map& map);

/// sigaction of the C library, for SIGSEGV.
int set_segv_action(const struct sigaction* action, struct sigaction* old);

} // namespace watch
