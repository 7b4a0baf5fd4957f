#include "driver_under_test.hpp"

#include <atomic>
#include <optional>
#include <string_view>

namespace test {

namespace {

cuevent::GetProcAddress source = nullptr;
std::optional<cuevent::Driver> tested;

std::atomic<int> events, streams, contexts, primary_retains;

/// Passes a call on, and counts it if it did what it was for.
template <std::atomic<int>& count, int step, class Function>
struct Counted;
template <std::atomic<int>& count, int step, class... Arguments>
struct Counted<count, step, CUresult (*)(Arguments...)> {
  static inline CUresult (*original)(Arguments...) = nullptr;

  static CUresult CUDAAPI call(Arguments... arguments) {
    const CUresult result = original(arguments...);
    // A destroyed context has taken its events along.
    if (result == CUDA_SUCCESS || (step < 0 && result == CUDA_ERROR_CONTEXT_IS_DESTROYED)) count += step;
    return result;
  }
};

template <std::atomic<int>& count, int step, class Function>
void* wrap(void* original) {
  using Wrapper = Counted<count, step, Function>;
  Wrapper::original = reinterpret_cast<Function>(original);
  return reinterpret_cast<void*>(Wrapper::call);
}

constexpr struct {
  std::string_view name;
  int version;
  void* (*wrap)(void*);
} counted[] = {
    {"cuEventCreate", 2000, wrap<events, +1, PFN_cuEventCreate_v2000>},
    {"cuEventDestroy", 4000, wrap<events, -1, PFN_cuEventDestroy_v4000>},
    {"cuStreamCreate", 2000, wrap<streams, +1, PFN_cuStreamCreate_v2000>},
    {"cuStreamDestroy", 4000, wrap<streams, -1, PFN_cuStreamDestroy_v4000>},
    {"cuCtxCreate", 3020, wrap<contexts, +1, PFN_cuCtxCreate_v3020>},
    {"cuCtxDestroy", 4000, wrap<contexts, -1, PFN_cuCtxDestroy_v4000>},
    {"cuDevicePrimaryCtxRetain", 7000, wrap<primary_retains, +1, PFN_cuDevicePrimaryCtxRetain_v7000>},
    {"cuDevicePrimaryCtxRelease", 11000, wrap<primary_retains, -1, PFN_cuDevicePrimaryCtxRelease_v11000>},
};

CUresult CUDAAPI get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  const CUresult result = source(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
  for (const auto& row : counted)
    if (row.name == name && row.version == version) *function = row.wrap(*function);
  return result;
}

} // namespace

void set_driver(cuevent::GetProcAddress from) {
  source = from;
  tested = cuevent::Driver(get_proc_address);
}

const cuevent::Driver& driver() { return tested.value(); }

bool simulated() {
  char name[256] = "";
  call<PFN_cuDeviceGetName_v2000>("cuDeviceGetName", 2000)(name, sizeof name, 0);
  return std::string_view(name).find("simulated") != std::string_view::npos;
}

cuevent::Driver uncounted_driver() { return cuevent::Driver(source); }

LiveHandles live_handles() noexcept {
  return {.events = events, .streams = streams, .contexts = contexts, .primary_retains = primary_retains};
}

} // namespace test
