// SPDX-License-Identifier: MIT
// The driver's own words, for error texts. Internal to the library.
#pragma once

#include "core/kept_table.hpp"

#include <cuevent/driver_log.hpp>

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Registers a callback with the driver of this table, if the driver has a log and the log is on. Until
/// stop_log(), set_driver_log() switches it.
void start_log(KeptTable&) noexcept;
void stop_log(KeptTable&) noexcept;

/// The advice after the driver's reasons, if the last refused call of this thread was `call` with `result`:
/// "the driver says: Event handle is NULL; ADVICE". Otherwise the advice alone. If `advice` is null, the
/// usual advice. Forgets the call: its reasons must not appear in the text of a later failure.
std::string with_reasons(CUresult result, const char* call, const char* advice = nullptr);
inline std::string with_reasons(CUresult result, const char* call, const std::string& advice) {
  return with_reasons(result, call, advice.c_str());
}

/// The reasons into `out` as a string that may be cut off, and nothing forgotten. For places without memory.
void read_reasons(CUresult result, const char* call, char* out, std::size_t size) noexcept;

/// While one lives, the thread's log stays as it is. For functions that make more calls to find out why a
/// call was refused.
class KeepLog {
public:
  KeepLog() noexcept;
  ~KeepLog();
  KeepLog(const KeepLog&) = delete;
  KeepLog& operator=(const KeepLog&) = delete;
};

}} // namespace cuevent::CUEVENT_ABI
