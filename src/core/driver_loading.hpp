// SPDX-License-Identifier: MIT
// How a driver is loaded, and what it is too old for. Internal to the library.
#pragma once

#include "core/failure.hpp"

#include <cuevent/driver.hpp>

#include <cstddef>
#include <cstdlib>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The two numbers of a CUDA version such as 12040, for a text: 12 and 4.
constexpr int major_of(int version) noexcept { return version / 1000; }
constexpr int minor_of(int version) noexcept { return version % 1000 / 10; }

/// Why a driver cannot be loaded. Begins as an allocation that failed.
struct LoadFailure : Failure {
  LoadFailure() noexcept
      : Failure{.result = CUDA_ERROR_OUT_OF_MEMORY, .call = "Driver", .kind = ErrorKind::driver_unavailable} {
  }
  LoadFailure(const LoadFailure&) = delete;
  LoadFailure& operator=(const LoadFailure&) = delete;
  ~LoadFailure() { std::free(made_advice); }

  /// As fail(), but returns null, for callers that do the same.
  [[gnu::cold, gnu::format(printf, 4, 5)]] std::nullptr_t set(CUresult its_result, const char* its_call,
                                                              const char* format, ...) noexcept;

  char* made_advice = nullptr;
};

/// \name A driver's table: of the functions, of a library, and of Driver::instance()
/// Null if there is no driver.
/// @{
[[gnu::cold]] const DriverTable* load_table(GetProcAddress get_proc_address, LoadFailure& failed) noexcept;
[[gnu::cold]] const DriverTable* load_table(const char* library, LoadFailure& failed) noexcept;
[[gnu::cold]] const DriverTable* load_table(LoadFailure& failed) noexcept;
/// @}

/// Throws if there is no driver.
template <class... Source>
const DriverTable& loaded(Source... source) {
  LoadFailure failed;
  const DriverTable* const table = load_table(source..., failed);
  if (table == nullptr) throw_failure(failed);
  return *table;
}

/// For a `call` that needs the function `name`, which drivers have from CUDA `version` on.
[[noreturn, gnu::cold]] void fail_unsupported(const DriverTable& table, const char* call, const char* name,
                                              int version);

}} // namespace cuevent::CUEVENT_ABI
