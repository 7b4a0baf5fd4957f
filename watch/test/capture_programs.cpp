// SPDX-License-Identifier: MIT
#include "programs.hpp"

#include <thread>

namespace {

/// Begins a capture on the first stream, and lets the second one join it and work.
CUevent fork(Gpu& gpu) {
  const CUevent event = gpu.event();
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  gpu.work(gpu.a);
  expect(cuEventRecord(event, gpu.a));
  expect(cuStreamWaitEvent(gpu.b, event, 0));
  gpu.work(gpu.b);
  return event;
}

/// Another thread polls an event while a global capture is active.
void poll_beside_capture(Gpu& gpu, bool relaxed) {
  const CUevent event = gpu.event();
  expect(cuEventRecord(event, gpu.b));
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  gpu.work(gpu.a);
  std::thread([&] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (relaxed) expect(cuThreadExchangeStreamCaptureMode(&mode));
    const CUresult result = cuEventQuery(event);
    if (relaxed) expect(cuThreadExchangeStreamCaptureMode(&mode));
    expect(result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result,
           relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  CUgraph graph = nullptr;
  expect(cuStreamEndCapture(gpu.a, &graph), relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/// Uses the legacy stream while a stream with these flags is capturing.
void legacy_during_capture(Gpu& gpu, unsigned flags) {
  const bool blocking = flags == CU_STREAM_DEFAULT;
  const CUstream stream = gpu.stream(flags);
  const CUevent event = gpu.event();
  expect(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  gpu.work(stream);
  expect(cuEventRecord(event, CU_STREAM_LEGACY),
         blocking ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS);
  CUgraph graph = nullptr;
  expect(cuStreamEndCapture(stream, &graph), blocking ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
}

} // namespace

const std::vector<Programs>& capture_programs() {
  static const std::vector<Programs> programs = {
      {"capture-invalidated", [](Gpu& gpu) { poll_beside_capture(gpu, false); },
       [](Gpu& gpu) { poll_beside_capture(gpu, true); }},
      {"capture-unjoined",
       [](Gpu& gpu) {
         fork(gpu);
         CUgraph graph = nullptr;
         expect(cuStreamEndCapture(gpu.a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
       },
       [](Gpu& gpu) {
         const CUevent event = fork(gpu);
         expect(cuEventRecord(event, gpu.b));
         expect(cuStreamWaitEvent(gpu.a, event, 0));
         CUgraph graph = nullptr;
         expect(cuStreamEndCapture(gpu.a, &graph));
       }},
      {"capture-never-ended",
       [](Gpu& gpu) {
         expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_RELAXED));
         gpu.work(gpu.a);
       },
       [](Gpu&) { // the stream ends with its capture
         const CUstream stream = Gpu().stream();
         expect(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
         expect(cuStreamDestroy(stream));
       }},
      {"legacy-during-capture", [](Gpu& gpu) { legacy_during_capture(gpu, CU_STREAM_DEFAULT); },
       [](Gpu& gpu) { legacy_during_capture(gpu, CU_STREAM_NON_BLOCKING); }},
      {"external-outside-capture",
       [](Gpu& gpu) {
         expect(cuEventRecordWithFlags(gpu.event(), gpu.a, CU_EVENT_RECORD_EXTERNAL),
                CUDA_ERROR_ILLEGAL_STATE);
       },
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
         expect(cuEventRecordWithFlags(event, gpu.a, CU_EVENT_RECORD_EXTERNAL));
         CUgraph graph = nullptr;
         expect(cuStreamEndCapture(gpu.a, &graph));
       }},
  };
  return programs;
}
