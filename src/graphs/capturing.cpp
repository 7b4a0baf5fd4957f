// SPDX-License-Identifier: MIT
#include "graphs/capturing.hpp"

#include "core/capture_state.hpp"
#include "core/on_stream.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

Status capture_of(const Context& context, CUstream stream, Capturing& capture) noexcept {
  const DriverTable& table = context.driver().table();
  return on_stream(context, stream, [&]() -> Status {
    const CaptureState state = capture_state(table, stream);
    if (!state.capturing()) return {state.result, "cuStreamIsCapturing"};
    if (state.invalidated()) return {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "StageTimer"};
    CUstreamCaptureStatus status = state.status;
    return {
        table.cuStreamGetCaptureInfo_v11030(stream, &status, &capture.id, &capture.graph, nullptr, nullptr),
        "cuStreamGetCaptureInfo"};
  });
}

}} // namespace cuevent::CUEVENT_ABI
