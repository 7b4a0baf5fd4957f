// SPDX-License-Identifier: MIT
// The handle of an event as text, for the other process of a scenario.
#pragma once

#include "lab.hpp"

namespace transcript {

std::string to_hex(const CUipcEventHandle& handle);
CUipcEventHandle from_hex(const std::string& text);
CUipcEventHandle handle_of(Lab& lab, CUevent event); // exports the event

} // namespace transcript
