// SPDX-License-Identifier: MIT
// Functions of the program's C library. They may be called from the program's threads, but not from inside
// the loader. The auditor's own C library must not make threads or handle signals: it does not know the
// program's.
#pragma once

#include <csignal>
#include <cstddef>
#include <link.h>
#include <pthread.h>

namespace watch {

struct ProgramFunctions {
  int (*create_thread)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = nullptr;
  int (*detach_thread)(pthread_t) = nullptr;
  int (*make_attributes)(pthread_attr_t*) = nullptr;
  int (*set_stack_size)(pthread_attr_t*, std::size_t) = nullptr;
  int (*block_signals)(int, const sigset_t*, sigset_t*) = nullptr;
  int (*set_signal_action)(int, const struct sigaction*, struct sigaction*) = nullptr;
  int (*call_at_exit)(void (*)(void*), void*, void*) = nullptr;
  int (*call_at_fork)(void (*before)(), void (*in_parent)(), void (*in_child)(), void*) = nullptr;

  bool can_create_threads() const {
    return create_thread != nullptr && detach_thread != nullptr && make_attributes != nullptr &&
           set_stack_size != nullptr && block_signals != nullptr;
  }
};

/// The loader has mapped a library of the program's namespace. The first one that has a function wins, as in
/// the program itself.
void find_program_functions(const link_map& map);

/// Starts a thread without signals: none of the program's handlers may run on it. Not from inside the loader.
bool start_thread(void* (*run)(void*));

} // namespace watch
