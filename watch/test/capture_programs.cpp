// SPDX-License-Identifier: MIT
// A mistake for each rule about captures. What is corrected comes as close to it as it may.
#include "driver_calls.hpp"

namespace {

MISTAKE("capture-invalidated", capture_invalidated, "another thread polls an event in a global capture") {
  const CUevent event = gpu.event();
  record(event, gpu.b);
  begin(gpu.a);
  gpu.work(gpu.a);
  on_another_thread([&] {
    CUstreamCaptureMode mode = relaxed;
    if (corrected) expect(cuThreadExchangeStreamCaptureMode(&mode));
    const CUresult result = cuEventQuery(event); //!
    if (corrected) expect(cuThreadExchangeStreamCaptureMode(&mode));
    expect(result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result,
           corrected ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  });
  expect(try_end(gpu.a), corrected ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

MISTAKE("capture-unjoined", capture_unjoined, "the second stream has joined the capture, and is not joined") {
  const CUevent event = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  order(gpu.a, event, gpu.b);
  gpu.work(gpu.b);
  if (corrected) order(gpu.b, event, gpu.a);
  expect(try_end(gpu.a), corrected ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED); //!
}

MISTAKE("capture-never-ended", capture_never_ended, "nothing ends the capture") {
  begin(gpu.a, relaxed); //!
  if (corrected)
    expect(cuStreamDestroy(gpu.a)); // the capture ends with its stream
  else
    gpu.work(gpu.a);
}

MISTAKE("legacy-during-capture", legacy_during_capture, "a blocking stream is capturing") {
  const CUstream stream = gpu.stream(corrected ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
  const CUevent event = gpu.event();
  begin(stream, relaxed);
  gpu.work(stream);
  const CUresult result = cuEventRecord(event, CU_STREAM_LEGACY); //!
  expect(result, corrected ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  expect(try_end(stream), corrected ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

MISTAKE("external-outside-capture", external_outside_capture, "an external record outside of a capture") {
  const CUevent event = gpu.event();
  if (corrected) begin(gpu.a);
  const CUresult result = cuEventRecordWithFlags(event, gpu.a, CU_EVENT_RECORD_EXTERNAL); //!
  expect(result, corrected ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE);
  if (corrected) end(gpu.a);
}

} // namespace
