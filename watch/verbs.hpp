// SPDX-License-Identifier: MIT
// What the watched calls mean, and which of their arguments a record holds.
#pragma once

#include <cstdint>

namespace watch {

/// The comment lists the words of a record. A handle that a call returns is 0 if the call failed.
/// The null stream is recorded as CU_STREAM_LEGACY, or as CU_STREAM_PER_THREAD for per-thread variants.
enum class Verb : std::uint8_t {
  lookup,              // cuGetProcAddress: never recorded
  event_create,        // event, flags
  event_open,          // event
  event_destroy,       // event
  event_record,        // event, stream, flags
  context_record,      // context, event
  event_query,         // event
  event_synchronize,   // event
  event_elapsed,       // start, end
  event_export,        // event
  stream_wait,         // stream, event, flags
  context_wait,        // context, event
  stream_create,       // stream, flags
  stream_create_green, // stream, flags; the context is the one of a green context
  stream_destroy,      // stream
  stream_use,          // stream
  capture_begin,       // stream, mode
  capture_into_graph,  // stream, graph, mode
  capture_end,         // stream, graph
  exchange_mode,       // the new mode of the thread
  work,                // stream, function, events that the launch records
  graph_launch,        // exec, stream
  graph_destroy,       // graph
  graph_clone,         // clone, graph
  graph_instantiate,   // exec, graph
  exec_destroy,        // exec
  exec_update,         // exec, graph
  node_add_event,      // node, graph, event
  node_set_event,      // node, event, or 0 for a node of another kind
  node_destroy,        // node
  exec_set_event,      // exec, node, event, or 0 for a node of another kind
  node_add_child,      // node, graph, child
  primary_retain,      // context, device
  context_create,      // context, ..., device
  context_destroy,     // context
  primary_release,     // device
  device_reset,        // device
  other,               // nothing; recorded only if the call failed
};

} // namespace watch
