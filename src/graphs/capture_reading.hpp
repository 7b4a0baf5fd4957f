// SPDX-License-Identifier: MIT
// What the driver says about the capture of a stream. Internal to the library.
#pragma once

#include "core/on_stream.hpp"

#include <algorithm>
#include <cstddef>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The arrays are the driver's. They are valid until the next call on the stream.
struct CaptureReading {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr; // null if the next work waits for all nodes to complete
  std::size_t count = 0;

  bool active() const noexcept { return status == CU_STREAM_CAPTURE_STATUS_ACTIVE; }
};

/// Whether the edge means that the later node waits for the completion of the earlier one.
inline bool is_plain(const CUgraphEdgeData& edge) noexcept {
  return edge.from_port == 0 && edge.to_port == 0 && edge.type == 0;
}

/// Driver function: cuStreamGetCaptureInfo. Harmless in every capture mode.
inline CUresult read_capture(CaptureReading& out, const Context& context, CUstream stream) noexcept {
  const DriverTable& table = context.driver().table();
  CaptureReading read;
  const CUresult result = on_stream(context, stream, [&] {
    // The older signature refuses to return nodes whose edges are not plain.
    if (table.version >= 12030)
      return table.cuStreamGetCaptureInfo_v12030(stream, &read.status, &read.id, &read.graph, &read.nodes,
                                                 &read.edges, &read.count);
    return table.cuStreamGetCaptureInfo_v11030(stream, &read.status, &read.id, &read.graph, &read.nodes,
                                               &read.count);
  });
  if (result != CUDA_SUCCESS) return result;
  if (!read.active()) read = {.status = read.status}; // the driver says nothing else then
  if (read.edges != nullptr && std::all_of(read.edges, read.edges + read.count, is_plain))
    read.edges = nullptr;
  out = read;
  return result;
}

/// For a refused cuStreamUpdateCaptureDependencies.
[[noreturn]] void fail_update(const Context& context, CUresult result);

}} // namespace cuevent::CUEVENT_ABI
