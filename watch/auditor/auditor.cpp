// SPDX-License-Identifier: MIT
// The functions that glibc's loader calls (man 7 rtld-audit). The library is loaded by LD_AUDIT, into a
// namespace of its own with a C library of its own, whose state for the program's threads is not set up.
// So nothing here uses stdio, locales, ctype, iostreams or malloc; watch/test/check-watch holds it to that.

#include "auditor/c_library.hpp"
#include "auditor/libraries.hpp"
#include "auditor/loaded_library.hpp"
#include "auditor/recorder.hpp"
#include "auditor/state.hpp"

#include <cstring>
#include <link.h>

namespace {

const char* file_name(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool starts_with(const char* text, const char* start) {
  return std::strncmp(text, start, std::strlen(start)) == 0;
}

/// The driver, also if its file has another name.
bool is_driver(const link_map& map) {
  if (starts_with(file_name(map.l_name), "libcuda.so")) return true;
  const char* const name = watch::linked_name(map);
  return name != nullptr && starts_with(name, "libcuda.so");
}

/// Parts of the driver, whose own calls are none of the program's.
bool is_of_the_driver(const char* name) {
  return starts_with(name, "libcuda.so") || starts_with(name, "libnvidia-") ||
         starts_with(name, "libcudadebugger");
}

/// The loader calls it after the destructors of the program, and not if a signal or _exit ends the process.
__attribute__((destructor)) void at_exit() { watch::note_exit(); }

} // namespace

extern "C" {

__attribute__((visibility("default"))) unsigned la_version(unsigned version) {
  if (!watch::read_environment()) return 0; // the loader forgets this library
  // Not LAV_CURRENT, which is of the glibc of the build: the functions here are the same in versions 1 and 2,
  // and since glibc 2.35 the loader for arm64 takes 2 only.
  constexpr unsigned newest_known = 2;
  return version < newest_known ? version : newest_known;
}

__attribute__((visibility("default"))) unsigned la_objopen(link_map* map, Lmid_t space, uintptr_t*) {
  const char* const name = file_name(map->l_name);
  if (is_driver(*map)) {
    watch::add_library(*map);
    watch::add_module(*map);
    watch::start_recording(*map);
    return LA_FLG_BINDTO;
  }
  if (space == LM_ID_BASE &&
      (watch::state.options.has(watch::probes) || watch::state.options.has(watch::jitter) ||
       watch::state.options.has(watch::memory_use)))
    watch::find_program_functions(*map);
  if (space == LM_ID_BASE && watch::state.options.has(watch::host_uses)) watch::replace_c_functions(*map);
  if (*map->l_name == '\0' || starts_with(name, "libpython")) watch::find_python(*map);
  if (space == LM_ID_BASE && watch::state.options.has(watch::memory_use)) watch::find_torch_allocator(*map);
  watch::add_module(*map);
  return LA_FLG_BINDFROM;
}

__attribute__((visibility("default"))) unsigned la_objclose(uintptr_t* cookie) {
  const auto* const map = reinterpret_cast<const link_map*>(*cookie); // the loader's default value
  watch::close_module(*map);
  watch::forget_python(*map);
  watch::remove_library(*map);
  return 0;
}

__attribute__((visibility("default"))) uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned, uintptr_t* used_in,
                                                              uintptr_t* defined_in, unsigned*,
                                                              const char* name) {
  const unsigned library = watch::library_index(reinterpret_cast<const link_map*>(*defined_in));
  if (library == watch::library_limit) return symbol->st_value;
  auto* const function = reinterpret_cast<void*>(symbol->st_value);
  const auto* const user = reinterpret_cast<const link_map*>(*used_in);
  const bool by_driver =
      is_of_the_driver(file_name(user->l_name)) || watch::library_index(user) != watch::library_limit;
  void* const other =
      by_driver ? watch::function_behind(library, function) : watch::hook_for_symbol(library, name, function);
  return other == nullptr ? symbol->st_value : reinterpret_cast<uintptr_t>(other);
}

} // extern "C"
