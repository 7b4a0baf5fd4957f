// SPDX-License-Identifier: MIT
// Why a program hangs, in words for a program that knows nothing of marks.
#pragma once

#include "rules/stream_work.hpp"

#include <cuevent/flight_report.hpp>

#include <string>
#include <vector>

namespace watch {

/// Words the sentences of the findings anew. `notes` are of the streams of the report.
void word_findings(cuevent::FlightReport& report, const std::vector<StreamNote>& notes);

/// Makes findings of streams that nobody knows to stand still, for a process that does not move for no other
/// known reason.
void add_possible_causes(cuevent::FlightReport& report);

/// The findings, then the streams that wait or are idle, as lines.
std::string hang_text(const cuevent::FlightReport& report, const std::vector<StreamNote>& notes);

} // namespace watch
