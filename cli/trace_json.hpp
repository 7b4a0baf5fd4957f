// SPDX-License-Identifier: MIT
// A timeline in the Chrome trace-event format, which Perfetto and chrome://tracing open.
#pragma once

#include "timeline.hpp"

#include <string>

namespace cli {

std::string trace_json(const Recording& recording, const Timeline& timeline);

} // namespace cli
