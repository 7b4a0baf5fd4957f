// SPDX-License-Identifier: MIT
// Which events a graph refers to. Captures, clones and child graphs have nodes whose handles no call returns,
// so the driver is asked.
#pragma once

#include "auditor/libraries.hpp"
#include "protocol/protocol.hpp"

namespace watch {

/// Records each event of the graph that the call is about to instantiate, or to update from. These calls
/// change nothing, and are allowed while a stream is capturing (measured).
void record_graph_events(const Library& library, const CallData& instantiation);

} // namespace watch
