// SPDX-License-Identifier: MIT
// What is left of a PollLimit. Internal to the library.
#pragma once

#include <cuevent/driver.hpp>
#include <cuevent/poll_limit.hpp>

#include <chrono>
#include <cstddef>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Reads the clock only if the poll has a deadline.
class PollBudget {
public:
  PollBudget(const PollLimit& limit, const DriverTable& table) noexcept
      : table_(table), callbacks_(limit.callbacks),
        end_(limit.deadline.at(std::chrono::nanoseconds(0)).count()) {
    if (end_ != never) end_ = limit.deadline.at(std::chrono::nanoseconds(table.clock_now())).count();
  }

  bool spent() const noexcept { return callbacks_ == 0 || (end_ != never && table_.clock_now() >= end_); }
  /// One callback has run.
  void count() noexcept { --callbacks_; }

private:
  static constexpr long long never = std::chrono::nanoseconds::max().count();

  const DriverTable& table_;
  std::size_t callbacks_;
  long long end_;
};

}} // namespace cuevent::CUEVENT_ABI
