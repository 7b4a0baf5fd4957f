// SPDX-License-Identifier: MIT
#include "auditor/program_functions.hpp"

#include "auditor/loaded_library.hpp"
#include "auditor/state.hpp"

#include <cstring>

namespace watch {

namespace {

template <class Function>
void find(Function& function, const link_map& map, const char* name) {
  if (function == nullptr) function = reinterpret_cast<Function>(exported_function(map, name, nullptr));
}

} // namespace

void find_program_functions(const link_map& map) {
  ProgramFunctions& found = state.program_functions;
  if (found.can_create_threads() && found.set_signal_action != nullptr && found.call_at_exit != nullptr &&
      found.call_at_fork != nullptr)
    return;
  find(found.create_thread, map, "pthread_create");
  find(found.detach_thread, map, "pthread_detach");
  find(found.make_attributes, map, "pthread_attr_init");
  find(found.set_stack_size, map, "pthread_attr_setstacksize");
  find(found.block_signals, map, "pthread_sigmask");
  find(found.set_signal_action, map, "sigaction");
  find(found.call_at_exit, map, "__cxa_atexit");
  find(found.call_at_fork, map, "__register_atfork");
}

bool start_thread(void* (*run)(void*)) {
  constexpr std::size_t stack_size = 256U << 10U;
  const ProgramFunctions& program = state.program_functions;
  sigset_t all, before;
  std::memset(&all, 0xFF, sizeof all);
  if (state.options.has(host_uses)) // the simulated driver copies when it is asked how far it is
    reinterpret_cast<unsigned char*>(&all)[(SIGSEGV - 1) / 8] &=
        static_cast<unsigned char>(~(1U << (SIGSEGV - 1) % 8));
  if (!program.can_create_threads() || program.block_signals(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_attr_t attributes;
  pthread_t thread{};
  const bool has_attributes =
      program.make_attributes(&attributes) == 0 && program.set_stack_size(&attributes, stack_size) == 0;
  // Large thread-local variables of the program may not fit into a small stack.
  const bool created = (has_attributes && program.create_thread(&thread, &attributes, run, nullptr) == 0) ||
                       program.create_thread(&thread, nullptr, run, nullptr) == 0;
  if (created) program.detach_thread(thread);
  program.block_signals(SIG_SETMASK, &before, nullptr);
  return created;
}

} // namespace watch
