// SPDX-License-Identifier: MIT
#include <cuevent/text.hpp>

#include <cuevent/timeline_semaphore.hpp>

#include "core/value_text.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

std::string to_string(TimelineStatus status) {
  return enumerator(status, "TimelineStatus", {"active", "participant_died", "abandoned"});
}

std::string to_string(WaitOrder order) {
  return enumerator(order, "WaitOrder", {"after_signal", "before_signal"});
}

}} // namespace cuevent::CUEVENT_ABI
