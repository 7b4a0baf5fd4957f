// SPDX-License-Identifier: MIT
// A driver's table as it is kept in memory. Internal to the library.
#pragma once

#include <cuevent/event_ref.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Every Driver refers to one, except a Driver without a driver.
struct KeptTable : DriverTable {
  KeptTable() noexcept : of_plain_events(EventRef::owner_of_plain_events(*this)) {}

  /// Stands for the owner of every CUevent of this driver that an EventRef got without an owner.
  DriverEvent of_plain_events;

  KeptTable* older = nullptr; // the table that was kept before
  bool ended = false;         // the exit handler has run

  CUlogsCallbackHandle log = nullptr; ///< of the callback for the driver's log; see driver_log.cpp
  KeptTable* older_with_log = nullptr;
};

/// Whether the table's clock is std::chrono::steady_clock, so that a thread may sleep without the table.
bool has_real_clock(const DriverTable& table) noexcept;

}} // namespace cuevent::CUEVENT_ABI
