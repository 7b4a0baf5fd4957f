// SPDX-License-Identifier: MIT
// Makes the simulator a libcuda.so.1: exports the driver's functions under their names, and reads
// settings from the environment of a program that knows nothing of the simulator.

#include "drop_in.hpp"
#include "functions.hpp"

#include "../runtime/unmodelled.hpp"

#include "../../environment/unknown_variables.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cuevent::sim {
namespace {

/// A wrong setting would otherwise make a test pass that tests something else.
[[noreturn]] void refuse_setting(const char* variable, std::string_view value, const std::string& needed) {
  environment::Text shown;
  shown.add(value.data(), value.size());
  std::fprintf(stderr, "cuevent sim: %s=%s: the value must be %s\n", variable, shown.get(), needed.c_str());
  std::fflush(stderr);
  std::_Exit(2);
}

/// So would a misspelt name.
void refuse_unknown_variables() {
  if (environment::for_each_unknown_variable(environment::Product::simulator, [](const char* text) {
        std::fprintf(stderr, "cuevent sim: %s\n", text);
      }) == 0)
    return;
  std::fflush(stderr);
  std::_Exit(2);
}

/// Empty if the variable is not set.
std::string_view text_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::string_view{} : text;
}

template <class Number>
Number number_in(std::string_view text, const char* variable, std::string_view value, Number least,
                 Number most, const std::string& needed) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    refuse_setting(variable, value, needed);
  return number;
}

template <class Number>
Number number_from(const char* variable, Number otherwise, Number least, Number most) {
  const std::string_view text = text_from(variable);
  if (text.empty()) return otherwise;
  return number_in(text, variable, text, least, most,
                   "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

/// Empty if the variable is not set.
std::optional<std::uint64_t> seed_from(const char* variable) {
  if (text_from(variable).empty()) return std::nullopt;
  return number_from<std::uint64_t>(variable, 0, 0, std::numeric_limits<std::uint64_t>::max());
}

/// What happens to calls that are not modelled.
Unmodelled unmodelled_from(const char* variable) {
  const std::string_view text = text_from(variable);
  if (text.empty() || text == "abort") return Unmodelled::abort;
  if (text == "error") return Unmodelled::error;
  if (text != "missing") refuse_setting(variable, text, "abort, error or missing");
  return Unmodelled::missing;
}

/// True if the variable chooses `other`; otherwise it has to be empty or `usual`.
bool chooses(const char* variable, std::string_view other, std::string_view usual) {
  const std::string_view text = text_from(variable);
  if (!text.empty() && text != other && text != usual)
    refuse_setting(variable, text, std::string(usual) + " or " + std::string(other));
  return text == other;
}

/// Reads `name=microseconds,...`.
template <class Set>
void read_durations(const char* variable, const std::string& needed, Set set) {
  const std::string_view value = text_from(variable);
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) refuse_setting(variable, value, needed);
    const auto duration =
        number_in<long long>(entry.substr(equals + 1), variable, value, 0, 1'000'000'000, needed);
    set(entry.substr(0, equals), std::chrono::microseconds(duration));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
}

Settings chosen;

/// Runs before any other static object of the program can call the driver.
const bool configured = [] {
  refuse_unknown_variables();
  Options& options = chosen.options;
  options.mode = chooses("CUEVENT_SIM_MODE", "stepped", "running") ? Mode::stepped : Mode::running;
  options.devices = number_from("CUEVENT_SIM_DEVICES", options.devices, 1, most_devices);
  options.driver_version =
      number_from("CUEVENT_SIM_DRIVER_VERSION", options.driver_version, 12000, newest_driver_version);
  options.patience = std::chrono::milliseconds(number_from("CUEVENT_SIM_PATIENCE_MS",
                                                           static_cast<int>(options.patience.count()), 0,
                                                           std::numeric_limits<int>::max()));
  options.random_order = seed_from("CUEVENT_SIM_RANDOM_ORDER");
  options.reuse_handles = seed_from("CUEVENT_SIM_REUSE_HANDLES");
  options.unmodelled = unmodelled_from("CUEVENT_SIM_UNMODELLED");
  Computer::set_default_options(options);
  Computer::reads_environment = true;
  // A program with raised rights writes no file that its user names.
  if (const char* const path = secure_getenv("CUEVENT_SIM_REPORT"); path != nullptr && *path != '\0') {
    Report& report = Computer::instance().report;
    if (const std::string needed = report.open(path); !needed.empty())
      refuse_setting("CUEVENT_SIM_REPORT", path, needed);
    if (options.driver_version > usual_driver_version) report.add_unmeasured_driver(options.driver_version);
  }
  std::map<std::string, Kernel>& kernels = chosen.kernels;
  constexpr const char* at_most = " and whole microseconds, at most 1000000000";
  read_durations("CUEVENT_SIM_KERNEL_US",
                 std::string("a list like work=500,*=20: names of kernels") + at_most,
                 [&](std::string_view name, std::chrono::microseconds duration) {
                   kernels[name == "*" ? "" : std::string(name)].duration = duration;
                 });
  constexpr const char* variable = "CUEVENT_SIM_HOLD_US";
  const std::string needed = std::string("a list like 1=500,*=20: numbers of streams") + at_most;
  read_durations(variable, needed, [&](std::string_view stream, std::chrono::microseconds hold) {
    Computer& computer = Computer::instance();
    const Time time = std::chrono::nanoseconds(hold).count();
    if (stream == "*")
      computer.usual_hold = time;
    else
      computer.holds[number_in<unsigned long long>(stream, variable, text_from(variable), 0,
                                                   std::numeric_limits<unsigned long long>::max(), needed)] =
          time;
  });
  if (const std::string_view name = text_from("CUEVENT_SIM_FAULTY_KERNEL"); !name.empty())
    kernels[std::string(name)].fault = CUDA_ERROR_ILLEGAL_ADDRESS;
  if (const std::string_view name = text_from("CUEVENT_SIM_ENDLESS_KERNEL"); !name.empty())
    kernels[std::string(name)].duration = endless;
  for (const auto& [name, kernel] : kernels)
    set_kernel(name, kernel);
  return true;
}();

} // namespace

const Settings& settings() { return chosen; }

} // namespace cuevent::sim

#define ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                              \
  extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI symbol parameters {                     \
    return cuevent::sim::Functions<0>::symbol arguments;                                                     \
  }
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, parameters,          \
                     arguments)                                                                              \
  ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                                    \
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
#define ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                              \
  {reinterpret_cast<void*>(&::symbol), nullptr},
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, parameters,          \
                     arguments)                                                                              \
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

/// Runs after everything that the program registered for its end.
__attribute__((destructor)) void report_calls() {
  Computer& computer = Computer::instance();
  const Computer::Lock lock(computer.mutex, std::try_to_lock); // a thread may stay in a call
  if (lock.owns_lock()) computer.report.add_end(computer.calls(), computer.scheduler.kernels());
}

} // namespace

} // namespace cuevent::sim

/// For tools that live in the program. `begin`: 1 before an optional call, 0 after it.
extern "C" __attribute__((visibility("default"))) void cueventOptionalCall(int begin) {
  unsigned& calls = cuevent::sim::optional_calls;
  if (begin != 0)
    ++calls;
  else if (calls > 0)
    --calls;
}

extern "C" __attribute__((visibility("default"))) int cueventUnmodelled(const char* function,
                                                                        const void* caller) {
  using namespace cuevent::sim;
  const std::string_view name = function;
  const bool returns_error = !name.starts_with("__");
  return unmodelled_function(function, caller, returns_error ? Refusable::yes : Refusable::no);
}

/// For the stand-in for the runtime, at the end of a program. The report has the kernels otherwise.
extern "C" __attribute__((visibility("default"))) void cueventTellKernels() {
  using namespace cuevent::sim;
  Computer& computer = Computer::instance();
  const Computer::Lock lock(computer.mutex, std::try_to_lock);
  if (!lock.owns_lock() || computer.report.is_written() || computer.scheduler.kernels().empty()) return;
  unsigned long long launches = 0;
  const auto& kernels = computer.scheduler.kernels();
  auto most = kernels.begin();
  for (auto each = kernels.begin(); each != kernels.end(); ++each) {
    launches += each->second;
    if (each->second > most->second) most = each;
  }
  const std::string name = readable_kernel(most->first);
  if (kernels.size() == 1)
    std::fprintf(stderr, "cuevent sim: the kernel %s ran %llu times and computed nothing\n", name.c_str(),
                 launches);
  else
    std::fprintf(stderr, "cuevent sim: %zu kernels ran %llu times and computed nothing; most often %.120s\n",
                 kernels.size(), launches, name.c_str());
}
