// SPDX-License-Identifier: MIT
// The handles of events and of memory as text, for the other process of a scenario.
#pragma once

#include "lab.hpp"

namespace transcript {

std::string to_hex(const CUipcEventHandle& handle);
std::string to_hex(const CUipcMemHandle& handle);
CUipcEventHandle from_hex(const std::string& text);
CUipcMemHandle memory_from_hex(const std::string& text);
CUipcEventHandle handle_of(Lab& lab, CUevent event);       // exports the event
CUipcMemHandle handle_of(Lab& lab, CUdeviceptr allocated); // exports the memory

} // namespace transcript
