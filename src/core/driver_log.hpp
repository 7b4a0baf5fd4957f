// SPDX-License-Identifier: MIT
// The driver's own words, for error texts. Internal to the library.
#pragma once

#include "core/kept_table.hpp"

#include <cuevent/driver_log.hpp>

#include <cstddef>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Registers a callback with the driver of this table, if the driver has a log and the log is on. Until
/// stop_log(), set_driver_log() switches it.
void start_log(KeptTable&) noexcept;
void stop_log(KeptTable&) noexcept;

constexpr unsigned most_words = 480; // bytes of the lines about one call

/// Forgotten lines do not appear in the text of a later failure.
enum class Words { keep, take };

/// A copy of the lines about `call`. None if the last refused call of this thread is another one, or had
/// another result.
struct LoggedLines {
  LoggedLines(CUresult result, const char* call, Words then) noexcept;

  std::string_view all() const noexcept { return {text, size}; }
  std::string_view reasons() const noexcept { return {text, reasons_size}; }

  char text[most_words];
  std::size_t size = 0;
  std::size_t reasons_size = 0;
};

/// Why the driver refused `call` in its own words: "Event handle is NULL". Empty if the last refused call of
/// this thread is another one, or had another result. Allocates nothing.
struct DriverWords {
  DriverWords(CUresult result, const char* call, Words then) noexcept;

  char text[2 * most_words]; // "; " between lines
};

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
