// SPDX-License-Identifier: MIT
// Makes the simulator a libcuda.so.1: exports the driver's functions under their names, and reads
// settings from the environment of a program that knows nothing of the simulator.

#include "functions.hpp"

#include <cstdlib>
#include <string_view>

namespace cuevent::sim {

namespace {

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

/// Runs before any other static object of the program can call the driver.
const bool configured = [] {
  Options options;
  const char* mode = std::getenv("CUEVENT_SIM_MODE");
  options.mode = mode != nullptr && std::string_view(mode) == "stepped" ? Mode::stepped : Mode::running;
  options.devices = number_from("CUEVENT_SIM_DEVICES", options.devices);
  options.driver_version = number_from("CUEVENT_SIM_DRIVER_VERSION", options.driver_version);
  options.patience = std::chrono::milliseconds(
      number_from("CUEVENT_SIM_PATIENCE_MS", static_cast<int>(options.patience.count())));
  if (const char* text = std::getenv("CUEVENT_SIM_UNMODELLED");
      text != nullptr && text == std::string_view("missing"))
    options.unmodelled = Unmodelled::missing;
  Computer::set_default_options(options);
  if (const char* name = std::getenv("CUEVENT_SIM_FAULTY_KERNEL"); name != nullptr && *name != '\0')
    set_kernel(name, {.fault = CUDA_ERROR_ILLEGAL_ADDRESS});
  if (const char* name = std::getenv("CUEVENT_SIM_ENDLESS_KERNEL"); name != nullptr && *name != '\0')
    set_kernel(name, {.duration = endless});
  return true;
}();

} // namespace

} // namespace cuevent::sim

#define ENTRY(gate, name, version, symbol, parameters, arguments)                                            \
  extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI symbol parameters {                     \
    return cuevent::sim::Functions<0>::symbol arguments;                                                     \
  }
#define STREAM_ENTRY(gate, name, version, thread_version, suffix, symbol, parameters, arguments)             \
  ENTRY(gate, name, version, symbol, parameters, arguments)                                                  \
  extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI symbol##_##suffix parameters {          \
    return cuevent::sim::Functions<0>::symbol##_##suffix arguments;                                          \
  }
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY

namespace cuevent::sim {

extern void* const unmodelled_exports[]; // in drop_in_unmodelled.cpp

namespace {

/// cuGetProcAddress returns the addresses that the loader finds, as a driver does.
const bool exported = [] {
  const std::array<void*, 2> exports[] = {
#define ENTRY(gate, name, version, symbol, parameters, arguments)                                            \
  {reinterpret_cast<void*>(&::symbol), nullptr},
#define STREAM_ENTRY(gate, name, version, thread_version, suffix, symbol, parameters, arguments)             \
  {reinterpret_cast<void*>(&::symbol), reinterpret_cast<void*>(&::symbol##_##suffix)},
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY
  };
  std::size_t i = 0;
  for (TableRow& row : driver_table()) {
    row.functions[0] = exports[i][0];
    row.thread_functions[0] = exports[i][1];
    ++i;
  }
  i = 0;
  for (UnmodelledRow& row : unmodelled_table())
    row.function = unmodelled_exports[i++];
  return true;
}();

} // namespace

} // namespace cuevent::sim
