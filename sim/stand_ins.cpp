// SPDX-License-Identifier: MIT
// For the loader (LD_AUDIT, rtld-audit(7)): wherever a program looks for a library that has a stand-in, it
// gets the stand-in, which is in the folder of this file. Libraries find the vendor's by paths in their files
// (RPATH), which come before LD_LIBRARY_PATH. A preloaded stand-in would load the driver into every program,
// also into a shell.

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <unistd.h>

#define LOADER extern "C" __attribute__((visibility("default")))

namespace {

constexpr const char* names[] = {"libcublas.so.12",   "libcublas.so.13", "libcublasLt.so.12",
                                 "libcublasLt.so.13", "libcudart.so.12", "libcudart.so.13",
                                 "libnccl.so.2"};

/// Of this library.
std::string own_folder() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&names), &own) == 0 || own.dli_fname == nullptr) return {};
  const std::string file = own.dli_fname;
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
