// SPDX-License-Identifier: MIT
#include "timing/boundary_recorder.hpp"

#include "core/on_stream.hpp"

#include <utility>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

// CUDA_ERROR_LOSSY_QUERY, which older headers lack.
constexpr auto lossy_query = static_cast<CUresult>(402);

/// The result of a record. The events are the timer's, so an invalid handle is the stream's fault.
Status recorded(CUresult result, const char* call) noexcept {
  return {result, call, result == CUDA_ERROR_INVALID_HANDLE ? Reason::other_context : Reason::unknown};
}

} // namespace

BoundaryRecorder::BoundaryRecorder(CUstream stream, CUstream side_stream, SideStreamPermit permit) noexcept
    : stream_(stream), side_stream_(permit ? side_stream : nullptr), permit_(std::move(permit)) {}

Status BoundaryRecorder::create(const Context& context) noexcept {
  if (!has_side_stream()) return {};
  return {DriverEvent::try_create(reached_, context), "cuEventCreate"};
}

Status BoundaryRecorder::record(DriverEvent& event) noexcept {
  if (!has_side_stream()) return recorded(event.try_record(stream_), "cuEventRecord");
  CUresult result = reached_.try_record(stream_);
  if (result != CUDA_SUCCESS) return recorded(result, "cuEventRecord");
  result = reached_.try_wait(side_stream_);
  if (result != CUDA_SUCCESS) return {result, "cuStreamWaitEvent"};
  return {event.try_record(side_stream_), "cuEventRecord"};
}

Status BoundaryRecorder::capture(DriverEvent& event, CUgraph graph, CUgraphNode& previous) const {
  const Context context = event.context();
  const DriverTable& table = context.driver().table();
  const CUgraphNode* last = nullptr; // what the next work of the stream will come after
  std::size_t count = 0;
  Status status;
  if (has_side_stream())
    status = on_stream(context, stream_, [&]() -> Status {
      CUstreamCaptureStatus ignored = CU_STREAM_CAPTURE_STATUS_NONE;
      return {table.cuStreamGetCaptureInfo_v11030(stream_, &ignored, nullptr, nullptr, &last, &count),
              "cuStreamGetCaptureInfo"};
    });
  // After a lossy query the nodes alone do not say what the next work comes after.
  if (!status && status.result != lossy_query) return status;
  if (!status || count == 0) {
    previous = nullptr;
    return recorded(event.try_record(stream_, RecordFlags::external), "cuEventRecordWithFlags");
  }
  // A record in the stream would hold up the next work. This node depends on what the next work
  // depends on, and on the record before it, and nothing depends on this node.
  std::vector<CUgraphNode> after(last, last + count);
  if (previous != nullptr) after.push_back(previous);
  CUgraphNode node = nullptr;
  const CUresult result =
      table.cuGraphAddEventRecordNode_v11010(&node, graph, after.data(), after.size(), event.native_handle());
  if (result == CUDA_SUCCESS) previous = node;
  return {result, "cuGraphAddEventRecordNode"};
}

}} // namespace cuevent::CUEVENT_ABI
