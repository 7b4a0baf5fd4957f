// SPDX-License-Identifier: MIT
// What the watched calls mean, and which of their arguments a record holds.
#pragma once

#include <cstdint>

namespace watch {

/// The words of a record are the arguments of the function that are handles or numbers of 32 bits, in their
/// order; EntryData::words names them.
enum class Verb : std::uint8_t {
  lookup, // cuGetProcAddress: never recorded
  event_create,
  event_open, // an event of another process, or of EGL
  event_destroy,
  event_record,
  context_record,
  event_query,
  event_synchronize,
  event_elapsed,
  event_export,
  stream_wait,
  context_wait,
  stream_create,
  stream_create_green, // the context is the one of a green context
  stream_destroy,
  stream_query,
  stream_synchronize,
  capture_begin,
  capture_into_graph,
  capture_end,
  exchange_mode,
  work, // the words are stream, function or address of a host function, and events that the launch records
  value_wait,
  value_write,
  graph_launch,
  graph_create,
  graph_destroy,
  graph_clone,
  graph_instantiate,
  exec_destroy,
  exec_update,
  node_add_event,
  node_set_event,
  exec_set_event,
  stream_ask, // these three are recorded if they failed, or for streams that are gone
  graph_ask,
  exec_ask,
  capture_ask,    // recorded only if the stream was destroyed, whatever the result is
  node_add,       // a node of another kind, failed; successful ones are recorded with Feature::memory_use
  exec_change,    // of a node in an executable graph; this and the next two are recorded as node_add
  graph_change,   // of edges
  node_change,    // of a node in a graph that the call does not name
  capture_change, // the same: cuStreamUpdateCaptureDependencies
  primary_retain,
  context_create,
  context_destroy,
  context_release, // a green context ends, or a context that may be attached still
  primary_release,
  device_reset,
  name_function, // cuModuleGetFunction and its like: recorded only if the call failed, see Region::names
  context_synchronize,
  copy,        // a copy or a memset without a stream, which may wait for the device
  memory_make, // recorded only if the call failed, or with Feature::memory_use
  memory_free, // the same
  initialize,  // cuInit; recorded only if the call failed
  other,       // recorded only if the call failed
  brief,       // the same, and the call does not wait: nothing is done before it
  probe,       // no call of the program
  graph_event, // no call of the program: an event of a graph that is about to be instantiated
  hold,        // a stream was held, see hold_entry: no call of the program
  memory_part, // MemoryPart, and its words: no call of the program
  spent,       // how long a call took, see spent_entry: no call of the program
};

/// Calls that can wait for the device. The last of their four words is the time that they took.
constexpr bool can_block(Verb verb) {
  return verb == Verb::event_synchronize || verb == Verb::stream_synchronize ||
         verb == Verb::context_synchronize || verb == Verb::copy;
}

/// Calls that change nothing that matters here, and may have an object that is gone.
constexpr bool is_question(Verb verb) {
  return verb == Verb::stream_ask || verb == Verb::graph_ask || verb == Verb::exec_ask ||
         verb == Verb::capture_ask || verb == Verb::node_add;
}

/// Calls that may wait for the device, or for locks of the driver that others hold while they wait.
constexpr bool may_wait(Verb verb) {
  return can_block(verb) || verb == Verb::other || verb == Verb::initialize || verb == Verb::memory_make ||
         verb == Verb::memory_free || verb == Verb::stream_destroy || verb == Verb::exec_destroy ||
         verb == Verb::context_destroy || verb == Verb::context_release || verb == Verb::primary_release ||
         verb == Verb::device_reset || verb == Verb::primary_retain || verb == Verb::context_create;
}

/// Calls that change nodes or edges of graphs, and not their events.
constexpr bool changes_graph(Verb verb) {
  return verb == Verb::node_add || verb == Verb::exec_change || verb == Verb::graph_change ||
         verb == Verb::node_change;
}

/// Calls that put one piece of work on a stream: a node, while the stream is being captured.
constexpr bool is_work(Verb verb) {
  return verb == Verb::work || verb == Verb::value_wait || verb == Verb::value_write;
}

/// Calls that put work on a stream. They wait while its launch queue is full.
constexpr bool submits_work(Verb verb) { return is_work(verb) || verb == Verb::graph_launch; }

} // namespace watch
