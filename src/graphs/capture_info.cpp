// SPDX-License-Identifier: MIT
#include <cuevent/capture_info.hpp>

#include "core/failure.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "graphs/capture_reading.hpp"

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

Graph CaptureInfo::graph() const {
  if (graph_ == nullptr)
    throw_error(CUDA_ERROR_ILLEGAL_STATE, "capture_info",
                "there is no graph, because the stream was not being captured or its "
                "capture was invalidated: check that status() is active");
  return Graph::borrow(context_, graph_);
}

CaptureInfo capture_info(const Context& context, CUstream stream) {
  require_context(context, "cuStreamGetCaptureInfo");
  CaptureInfo info;
  const CUresult result = try_capture_info(info, context, stream);
  if (result != CUDA_SUCCESS) context.driver().fail(result, "cuStreamGetCaptureInfo");
  return info;
}

CUresult try_capture_info(CaptureInfo& out, const Context& context, CUstream stream) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  CaptureReading reading;
  const CUresult result = read_capture(reading, context, stream);
  if (result != CUDA_SUCCESS) return result;
  return result_of([&] {
    CaptureInfo info;
    if (reading.status != CU_STREAM_CAPTURE_STATUS_NONE)
      info.status_ = reading.active() ? CaptureStatus::active : CaptureStatus::invalidated;
    info.context_ = context;
    info.id_ = reading.id;
    info.graph_ = reading.graph;
    info.frontier_.assign(reading.nodes, reading.nodes + reading.count);
    if (reading.edges != nullptr) info.edges_.assign(reading.edges, reading.edges + reading.count);
    out = std::move(info);
    return CUDA_SUCCESS;
  });
}

}} // namespace cuevent::CUEVENT_ABI
