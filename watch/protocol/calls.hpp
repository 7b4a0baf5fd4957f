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

namespace watch {

struct EntryData {
  Verb verb;
  const char* symbol; // that libcuda exports
  const char* name;   // for cuGetProcAddress
  int version;        // the CUDA version of this signature, for cuGetProcAddress
  const char* suffix; // of the variant for per-thread default streams, or null
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
