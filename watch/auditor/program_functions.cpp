// SPDX-License-Identifier: MIT
#include "auditor/program_functions.hpp"

#include "auditor/loaded_library.hpp"

namespace watch {

ProgramFunctions program_functions;

namespace {

template <class Function>
void find(Function& function, const link_map& map, const char* name) {
  if (function == nullptr) function = reinterpret_cast<Function>(exported_function(map, name, nullptr));
}

} // namespace

void find_program_functions(const link_map& map) {
  ProgramFunctions& found = program_functions;
  if (found.can_create_threads() && found.set_signal_action != nullptr && found.call_at_exit != nullptr)
    return;
  find(found.create_thread, map, "pthread_create");
  find(found.detach_thread, map, "pthread_detach");
  find(found.make_attributes, map, "pthread_attr_init");
  find(found.set_stack_size, map, "pthread_attr_setstacksize");
  find(found.block_signals, map, "pthread_sigmask");
  find(found.set_signal_action, map, "sigaction");
  find(found.call_at_exit, map, "__cxa_atexit");
}

} // namespace watch
