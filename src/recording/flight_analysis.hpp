// SPDX-License-Identifier: MIT
// Who waits for whom, to the root. Internal to the library.
#pragma once

#include "recording/flight_observation.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

/// Draws the conclusions. No driver call.
FlightReport analyse(const FlightObservation& observed);

/// "likely cause: stream 'a' has not reached 'b'", for the first finding.
std::string heading_text(const FlightFinding& finding);

/// "31.2 s"
std::string age_text(std::chrono::nanoseconds age);

/// ", which was submitted 31.2 s ago", or nothing if nobody knows.
std::string submitted_text(const FlightMark& mark);

/// "'step 18'", or "the end of its work" if there is no next mark: where a stream stands.
std::string place_text(const FlightStream& stream);

}} // namespace cuevent::CUEVENT_ABI
