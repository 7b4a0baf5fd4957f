// SPDX-License-Identifier: MIT
// The handler of SIGSEGV that takes the uses of guarded memory, with Feature::host_uses. The program does not
// see it: what it sets and asks is the action that it would have without the auditor.
//
// The first SIGSEGV that is the program's own ends the guards. The program gets its action back, and then the
// same signal, from the kernel. So nothing of what its handler can do differs.
#pragma once

#include "auditor/lock.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>

namespace watch {

/// True of the program and its forked children, which inherit the handler.
struct SegvHandler {
  std::atomic<std::uint32_t> is_set;
  bool notes_forks; // never to be asked for twice
  struct sigaction of_program;
};

/// Sets the handler, unless it is set. False if it cannot take the uses of this thread: then nothing may be
/// guarded.
bool prepare_segv_handler();

/// In place of the C library's, for SIGSEGV. False if the handler is not set: the C library knows better.
bool change_segv_action(const struct sigaction* action, struct sigaction* old);

} // namespace watch
