// SPDX-License-Identifier: MIT
#include "watched_driver.hpp"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace process {

namespace {

enum Row : std::size_t {
#define CUEVENT_REQUIRED(name, version) row_##name##_v##version,
#define CUEVENT_OPTIONAL(name, version) row_##name##_v##version,
#include <cuevent/driver_symbols.inc>
#undef CUEVENT_REQUIRED
#undef CUEVENT_OPTIONAL
  rows
};

struct Watch {
  std::string_view name;
  std::atomic<bool> forbidden{false};
  std::atomic<bool> replaced{false};
  std::atomic<CUresult> result{CUDA_SUCCESS};
};
Watch watches[rows] = {
#define CUEVENT_REQUIRED(name, version) {#name},
#define CUEVENT_OPTIONAL(name, version) {#name},
#include <cuevent/driver_symbols.inc>
#undef CUEVENT_REQUIRED
#undef CUEVENT_OPTIONAL
};

/// A driver function with a watch in front of it.
template <Row row, class Function>
struct Watched;
template <Row row, class... Parameters>
struct Watched<row, CUresult(CUDAAPI*)(Parameters...)> {
  static inline CUresult(CUDAAPI* function)(Parameters...) = nullptr;

  static CUresult CUDAAPI call(Parameters... arguments) {
    Watch& watch = watches[row];
    if (watch.forbidden) {
      std::fprintf(stderr, "%s was called where that can crash\n", watch.name.data());
      std::_Exit(1);
    }
    if (watch.replaced) return watch.result;
    const CUresult result = function(arguments...);
    if constexpr (row == row_cuInit_v2000)
      if (result == CUDA_SUCCESS) std::atexit(forbid_calls);
    return result;
  }
};

/// Puts the watch of a row in front of the function that was found, if the name is that of the row.
template <Row row, class Function>
void watch_over(std::string_view name, int since, std::string_view asked, int version, void*& found) {
  if (name != asked || since != version) return;
  Watched<row, Function>::function = reinterpret_cast<Function>(found);
  found = reinterpret_cast<void*>(&Watched<row, Function>::call);
}

cuevent::GetProcAddress get_proc_address = nullptr;

CUresult CUDAAPI get_watched(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const CUresult result = get_proc_address(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
#define CUEVENT_REQUIRED(row, since)                                                                         \
  watch_over<row_##row##_v##since, PFN_##row##_v##since>(#row, since, name, version, *function);
#define CUEVENT_OPTIONAL(row, since)                                                                         \
  watch_over<row_##row##_v##since, PFN_##row##_v##since>(#row, since, name, version, *function);
#include <cuevent/driver_symbols.inc>
#undef CUEVENT_REQUIRED
#undef CUEVENT_OPTIONAL
  return result;
}

} // namespace

std::string driver_library() {
  const char* const named = std::getenv("CUEVENT_DRIVER");
  return named != nullptr && *named != '\0' ? named : "libcuda.so.1";
}

cuevent::Driver watched_driver() {
  void* const library = dlopen(driver_library().c_str(), RTLD_NOW | RTLD_NODELETE);
  if (library == nullptr) cuevent::throw_error(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "dlopen", dlerror());
  get_proc_address = reinterpret_cast<cuevent::GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  return cuevent::Driver(get_watched);
}

void forbid_calls() noexcept {
  for (Watch& watch : watches)
    watch.forbidden = true;
}

void forbid_call(std::string_view name) noexcept {
  for (Watch& watch : watches)
    if (watch.name == name) watch.forbidden = true;
}

void answer_instead(std::string_view name, CUresult result) noexcept {
  for (Watch& watch : watches) {
    if (watch.name != name) continue;
    watch.result = result;
    watch.replaced = true;
  }
}

} // namespace process
