// SPDX-License-Identifier: MIT
// Why a program hangs, in words for a program that knows nothing of marks.
#pragma once

#include <cuevent/flight_report.hpp>

#include <string>

namespace watch {

/// Words the sentences of the findings anew.
void word_findings(cuevent::FlightReport& report);

/// The findings, then the streams that wait or are idle, as lines.
std::string hang_text(const cuevent::FlightReport& report);

} // namespace watch
