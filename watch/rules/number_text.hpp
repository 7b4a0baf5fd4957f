// SPDX-License-Identifier: MIT
// Numbers in the sentences of findings.
#pragma once

#include <chrono>
#include <string>

namespace watch {

/// "1,000".
std::string number_text(unsigned long number);

/// "3.1 s", "250 ms", "12 us".
std::string time_text(std::chrono::nanoseconds time);

} // namespace watch
