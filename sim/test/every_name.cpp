// SPDX-License-Identifier: MIT
// A program that binds every function of cuda.h when it starts. cuGetProcAddress has to find each of them for
// its own version, at the address that the loader found, and not for the version before.

#define __CUDA_API_VERSION_INTERNAL // the header renames nothing
#include <cuda.h>

#include <cstdio>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#define ENTRY(gate, in_callbacks, name, version, symbol, ...) NAME(symbol, name, version, false)
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, ...)                 \
  NAME(symbol, name, version, false) NAME(symbol##_##suffix, name, thread_version, true)
#define UNMODELLED(symbol, name, version, per_thread) NAME(symbol, name, version, per_thread)

// Names of their own, because the header declares parameters.
#define NAME(symbol, name, version, per_thread) extern "C" void every_##symbol() __asm__(#symbol);
#include "../src/driver_functions.inc"
#include "../src/unmodelled.inc"
#undef NAME

namespace {

struct Name {
  const char* symbol;
  const char* name;
  int version;
  bool per_thread;
  void* address;
};

const Name names[] = {
#define NAME(symbol, name, version, per_thread)                                                              \
  {#symbol, #name, version, per_thread, reinterpret_cast<void*>(&every_##symbol)},
#include "../src/driver_functions.inc"
#include "../src/unmodelled.inc"
#undef NAME
};

void* found(const Name& name, int version) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  const auto flags =
      name.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
  if (cuGetProcAddress_v2(name.name, &address, version, flags, &status) != CUDA_SUCCESS) return nullptr;
  return (address != nullptr) == (status == CU_GET_PROC_ADDRESS_SUCCESS) ? address : nullptr;
}

} // namespace

int main() {
  int driver = 0;
  int wrong = 0;
  if (cuDriverGetVersion(&driver) != CUDA_SUCCESS) return 1;
  std::map<std::pair<std::string, bool>, std::map<int, const Name*>> variants;
  for (const Name& name : names)
    variants[{name.name, name.per_thread}][name.version] = &name;
  for (const auto& [of, by_version] : variants) {
    for (const auto& [version, name] : by_version) {
      const bool there = version <= driver && name->address == found(*name, version);
      const bool too_early = version <= driver && name->address == found(*name, version - 1);
      if (there == (version <= driver) && !too_early) continue;
      std::fprintf(stderr, "%s, since %d: %s\n", name->symbol, version,
                   too_early ? "found too early" : "not found");
      ++wrong;
    }
  }
  std::printf("%zu functions\n", std::size(names));
  return wrong == 0 ? 0 : 1;
}
