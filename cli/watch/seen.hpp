// SPDX-License-Identifier: MIT
// What a watch has seen, in one sentence: silence alone would not tell a blind watch from a clean program.
#pragma once

#include "watch/session.hpp"

#include <cstddef>
#include <string>

namespace cli {

/// "watched 3 processes, 41,200 calls, no finding; 1 process could not be watched: ..."
std::string seen_text(const WatchSession& watched, std::size_t findings, bool have_hangs);

/// "; 4 more findings are about libraries of CUDA alone: --vendor lists them", or the empty text.
std::string vendor_text(std::size_t findings);

} // namespace cli
