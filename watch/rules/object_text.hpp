// SPDX-License-Identifier: MIT
// Objects in the sentences of findings.
#pragma once

#include "rules/call.hpp"

#include <string>

namespace watch {

std::string hexadecimal(Handle handle);
/// "event 0x55d0c0", "stream 0x55d0c0", "the legacy stream of context 0x55d0", "the per-thread stream of
/// thread 2314 in context 0x55d0".
std::string event_text(Handle event);
std::string stream_text(const StreamKey& stream);

} // namespace watch
