// SPDX-License-Identifier: MIT
#include <cuevent/text.hpp>

#include <cuevent/stage_timer.hpp>

#include "core/value_text.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

std::string to_string(StageId stage) { return "stage " + std::to_string(std::uint32_t(stage)); }

std::string to_string(StreamId stream) { return "stream " + std::to_string(std::uint32_t(stream)); }

std::string to_string(SpanEscape escaped) {
  return enumerator(escaped, "SpanEscape", {"unknown", "no", "yes"});
}

std::string to_string(StageEscapes escapes) {
  return enumerator(escapes, "StageEscapes", {"ignored", "checked"});
}

std::string to_string(StageRanges ranges) { return enumerator(ranges, "StageRanges", {"none", "nvtx"}); }

std::string to_string(WhenFull what) { return enumerator(what, "WhenFull", {"drop", "wait"}); }

}} // namespace cuevent::CUEVENT_ABI
