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
  stream_query,        // stream
  stream_synchronize,  // stream
  capture_begin,       // stream, mode, ...
  capture_into_graph,  // stream, graph, mode
  capture_end,         // stream, graph
  exchange_mode,       // the new mode of the thread
  work,                // stream, function, events that the launch records
  value_wait,          // stream, address, value, flags
  value_write,         // stream, address, value, flags
  graph_launch,        // exec, stream, how often it was launched so far
  graph_create,        // graph, flags
  graph_destroy,       // graph
  graph_clone,         // clone, graph
  graph_instantiate,   // exec, graph
  exec_destroy,        // exec
  exec_update,         // exec, graph
  node_add_event,      // node, graph, event, and of functions for any node its CUgraphNodeType
  node_set_event,      // node, event, or 0 for a node of another kind, type as above
  exec_set_event,      // exec, node, event, or 0 for a node of another kind, type as above
  primary_retain,      // context, device
  context_create,      // context, ..., device
  context_destroy,     // context
  green_destroy,       // green context
  primary_release,     // device
  device_reset,        // device
  name_function,       // cuModuleGetFunction and its like: never recorded, see Region::names
  context_synchronize, // nothing
  copy,                // nothing: a copy or a memset without a stream, which may wait for the device
  other,               // nothing; recorded only if the call failed
  probe,               // stream, number, place in Region::streams: no call of the program
  graph_event,         // graph, node, event, CUgraphNodeType: no call of the program
};

/// Calls that can wait for the device. The last of their four words is the time that they took.
constexpr bool can_block(Verb verb) {
  return verb == Verb::event_synchronize || verb == Verb::stream_synchronize ||
         verb == Verb::context_synchronize || verb == Verb::copy;
}

/// Calls that put one piece of work on a stream: a node, while the stream is being captured.
constexpr bool is_work(Verb verb) {
  return verb == Verb::work || verb == Verb::value_wait || verb == Verb::value_write;
}

/// Calls that put work on a stream. They wait while its launch queue is full.
constexpr bool submits_work(Verb verb) { return is_work(verb) || verb == Verb::graph_launch; }

} // namespace watch
