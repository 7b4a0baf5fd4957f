// SPDX-License-Identifier: MIT
#include "auditor/python_frames.hpp"

#include "auditor/loaded_library.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace watch {

namespace {

PythonState (*state_of_this_thread)() = nullptr;
const link_map* interpreter = nullptr;
void (*dump)(int file, PythonState) = nullptr;
int (*is_finalizing)() = nullptr;

} // namespace

void find_python(const link_map& map) {
  if (dump != nullptr) return;
  void* const state = exported_function(map, "PyGILState_GetThisThreadState", nullptr);
  void* const function = exported_function(map, "_Py_DumpTraceback", nullptr);
  if (state == nullptr || function == nullptr) return;
  state_of_this_thread = reinterpret_cast<PythonState (*)()>(state);
  dump = reinterpret_cast<void (*)(int, PythonState)>(function);
  is_finalizing = reinterpret_cast<int (*)()>(exported_function(map, "_Py_IsFinalizing", nullptr));
  interpreter = &map;
}

void forget_python(const link_map& map) {
  if (interpreter != &map) return;
  dump = nullptr;
  interpreter = nullptr;
}

bool python_is_ending() { return is_finalizing == nullptr || is_finalizing() != 0; }

PythonState python_state_of_this_thread() { return dump == nullptr ? nullptr : state_of_this_thread(); }

std::size_t python_frames(PythonState state, char* text, std::size_t room) {
  if (dump == nullptr || state == nullptr) return 0;
  // A file of its own: what the process shares with a forked child would be mixed up.
  const int file = static_cast<int>(syscall(SYS_memfd_create, "cuevent-watch", 1U /* MFD_CLOEXEC */));
  if (file < 0) return 0;
  dump(file, state);
  const long length = syscall(SYS_pread64, file, text, room, 0L);
  syscall(SYS_close, file);
  return length > 0 ? static_cast<std::size_t>(length) : 0;
}

} // namespace watch
