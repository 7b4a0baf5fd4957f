// SPDX-License-Identifier: MIT
// The driver functions that are watched: the names that libcuda exports, the names and versions for
// cuGetProcAddress, and the signatures. The list is generated: driver/functions.txt has the rows.
// What is not in this list passes through untouched.
#pragma once

#include "protocol/verbs.hpp"

// Keeps the header from renaming functions to their newest variant.
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace watch {

/// What a word of a record is: the member of Call with this name (rules/call.hpp).
enum class Field : std::uint8_t {
  none, // no rule needs it
  stream,
  event,
  second_event,
  graph,
  made_graph,
  exec,
  node,
  function,
  named_context,
  device,
  flags,
  mode,
  address,
  value,
  number,
  node_type,
};

/// What the call submits to a stream, or what a node of the call does. An event, a wait and an empty node are
/// nodes only; `any` is a node of a kind that the function does not tell.
enum class Work : std::uint8_t {
  none,
  kernel,
  copy,
  fill,
  host,       // a function of the program
  values,     // writes of values and waits for values
  semaphores, // of other interfaces
  graph,
  empty,
  record,
  wait,
  allocation,
  free,
  other,
  any,
};

/// What else is known about a function; each is a bit.
enum Effect : std::uint16_t {
  adds_order = 1,       // to work that other calls submit, or to nodes
  makes_context = 2,    // also a green one
  ends_code = 4,        // and its functions, whose handles other functions may get
  opens_event = 8,      // of another process
  relaxed_capture = 16, // begins a capture that is relaxed, although the call does not say so
  value_of_64_bits = 32,
  hides_memory = 64, // a kernel whose parameters are not in the arguments
  // A copy or a memset that the host does not see, unless it looks at mapped memory; or the end of memory, if
  // the call does not wait for the device.
  stays_on_device = 128,
  ends_object = 256,    // or frees memory
  tells_context = 512,  // whether a context is current, and which: a refusal is an answer
  returns_early = 1024, // perhaps before the copy is done
};

struct EntryData {
  Verb verb;
  Work work;
  std::uint16_t effects;      // bits of Effect
  std::array<Field, 4> words; // of a record of this function
  const char* symbol;         // that libcuda exports
  const char* name;           // for cuGetProcAddress
  int version;                // the CUDA version of this signature, for cuGetProcAddress
  const char* suffix;         // of the variant for per-thread default streams, or null

  constexpr bool has(Effect effect) const { return (effects & effect) != 0; }
};

template <class Signature>
struct Entry : EntryData {};

/// Not a std::tuple, which would take a compiler seconds in every file.
template <class... Signatures>
struct EntryList {
  std::array<EntryData, sizeof...(Signatures)> data;
};

template <class... Signatures>
constexpr EntryList<Signatures...> list_of(const Entry<Signatures>&... entries) {
  return {{EntryData(entries)...}};
}

// Types that the headers of CUDA 12.0 lack.
// CUgreenCtx of a stream's creation, CUctxCreateParams*, CUgraphEdgeData*; and lists of nodes
using Opaque = void*;
struct GreenContext;    // CUgreenCtx is a pointer to it
struct MemoryLocation { // CUmemLocation
  int type, id;
};
struct NodeParameters; // CUgraphNodeParams; a type of its own, so that it is not taken for an Opaque

inline constexpr auto entries = list_of(
#include "protocol/watched_functions.inc"
);

inline constexpr const auto& entry_data = entries.data;
inline constexpr std::size_t entry_count = entry_data.size();

/// The host may see this work, which may wait for the host.
constexpr bool speaks_with_host(Work work) {
  return work == Work::host || work == Work::values || work == Work::semaphores;
}

/// Whether this is a default stream. The null stream is one too.
inline bool is_default_stream(std::uint64_t handle) {
  return handle <= reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
}

/// Whether the capture is over after cuStreamEndCapture has returned this.
constexpr bool ends_capture(CUresult result) {
  return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
         result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED || result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

} // namespace watch
