// SPDX-License-Identifier: MIT
#include <cuevent/text.hpp>

#include <cuevent/capture.hpp>
#include <cuevent/launch_attribute.hpp>

#include "core/value_text.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

std::string to_string(CaptureMode mode) {
  return enumerator(mode, "CaptureMode", {"global", "per_thread", "relaxed"});
}

std::string to_string(CaptureStatus status) {
  return enumerator(status, "CaptureStatus", {"none", "active", "invalidated"});
}

std::string to_string(EventTrigger trigger) {
  return enumerator(trigger, "EventTrigger", {"program", "block_start"});
}

}} // namespace cuevent::CUEVENT_ABI
