// SPDX-License-Identifier: MIT
// For the loader (LD_AUDIT, rtld-audit(7)): wherever a program looks for a library that has a stand-in, it
// gets the stand-in, which is in the folder of this file. Libraries find the vendor's by paths in their files
// (RPATH), which come before LD_LIBRARY_PATH. A preloaded stand-in would load the driver into every program,
// also into a shell.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <link.h>
#include <string>
#include <unistd.h>

#define LOADER extern "C" __attribute__((visibility("default")))

namespace {

constexpr const char* names[] = {"libcublas.so.12",   "libcublas.so.13", "libcublasLt.so.12",
                                 "libcublasLt.so.13", "libcudart.so.12", "libcudart.so.13",
                                 "libnccl.so.2"};

/// Of this library. Not by dladdr, which crashes in glibc 2.31 before the program has begun.
std::string own_folder() {
  std::string file;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* found) {
        const auto own = reinterpret_cast<std::uintptr_t>(&names);
        for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = object->dlpi_phdr[i];
          const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || own < begin || own - begin >= part.p_memsz) continue;
          *static_cast<std::string*>(found) = object->dlpi_name;
          return 1;
        }
        return 0;
      },
      &file);
  return file.substr(0, file.rfind('/'));
}

} // namespace

LOADER unsigned la_version(unsigned) { return LAV_CURRENT; }

/// The loader keeps the name for the moment of the search only.
LOADER char* la_objsearch(const char* name, std::uintptr_t*, unsigned) {
  const char* const slash = std::strrchr(name, '/');
  const char* const plain = slash == nullptr ? name : slash + 1;
  static const std::string folder = own_folder();
  for (const char* each : names) {
    if (std::strcmp(plain, each) != 0) continue;
    thread_local std::string found;
    found = folder + '/' + each;
    if (access(found.c_str(), R_OK) == 0) return found.data();
  }
  return const_cast<char*>(name);
}
