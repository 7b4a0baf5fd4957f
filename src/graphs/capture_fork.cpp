// SPDX-License-Identifier: MIT
#include <cuevent/capture_fork.hpp>
#include <cuevent/error.hpp>

#include "core/require_context.hpp"
#include "graphs/capture_reading.hpp"

#include <algorithm>
#include <cstddef>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* get_info = "cuStreamGetCaptureInfo";
constexpr const char* update = "cuStreamUpdateCaptureDependencies";

constexpr const char* not_captured =
    "the stream is not being captured: call this between the begin and the end of a capture";

CUresult update_dependencies(const Context& context, CUstream stream, ArrayView<CUgraphNode> nodes,
                             ArrayView<CUgraphEdgeData> edges, unsigned flags) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (edges.size() != 0 && edges.size() != nodes.size()) return CUDA_ERROR_INVALID_VALUE;
  if (std::find(nodes.begin(), nodes.end(), nullptr) != nodes.end()) return CUDA_ERROR_INVALID_VALUE;
  const DriverTable& table = context.driver().table();
  CUgraphNode none = nullptr; // so that an empty set has an address, too
  CUgraphNode* const data = nodes.size() == 0 ? &none : const_cast<CUgraphNode*>(nodes.data());
  return on_stream(context, stream, [&] {
    if (std::all_of(edges.begin(), edges.end(), is_plain)) // works before CUDA 12.3
      return table.cuStreamUpdateCaptureDependencies_v11030(stream, data, nodes.size(), flags);
    return table.cuStreamUpdateCaptureDependencies_v12030(stream, data, edges.data(), nodes.size(), flags);
  });
}

void check_update(const Context& context, CUresult result) {
  if (result != CUDA_SUCCESS) fail_update(context, result);
}

CUgraphEdgeData edge_of(const CaptureReading& reading, std::size_t i) noexcept {
  return reading.edges != nullptr ? reading.edges[i] : CUgraphEdgeData{};
}

bool same(const CUgraphEdgeData& a, const CUgraphEdgeData& b) noexcept {
  return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type;
}

} // namespace

void fail_update(const Context& context, CUresult result) {
  require_context(context, update);
  const char* advice = nullptr;
  if (result == CUDA_ERROR_ILLEGAL_STATE) advice = not_captured;
  if (result == CUDA_ERROR_INVALID_VALUE)
    advice =
        "a node is null or belongs to another graph than the one that the stream is being captured into, "
        "or there are edges but not one for each node: take both from capture_info(), or from calls that "
        "added nodes to that graph";
  context.driver().fail(result, update, advice);
}

void add_capture_dependencies(const Context& context, CUstream stream, ArrayView<CUgraphNode> nodes,
                              ArrayView<CUgraphEdgeData> edges) {
  check_update(context, try_add_capture_dependencies(context, stream, nodes, edges));
}

void set_capture_dependencies(const Context& context, CUstream stream, ArrayView<CUgraphNode> nodes,
                              ArrayView<CUgraphEdgeData> edges) {
  check_update(context, try_set_capture_dependencies(context, stream, nodes, edges));
}

CUresult try_add_capture_dependencies(const Context& context, CUstream stream, ArrayView<CUgraphNode> nodes,
                                      ArrayView<CUgraphEdgeData> edges) noexcept {
  return update_dependencies(context, stream, nodes, edges, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
}

CUresult try_set_capture_dependencies(const Context& context, CUstream stream, ArrayView<CUgraphNode> nodes,
                                      ArrayView<CUgraphEdgeData> edges) noexcept {
  return update_dependencies(context, stream, nodes, edges, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

CaptureFork::CaptureFork(const Context& context, CUstream stream) : context_(context), stream_(stream) {
  const CaptureInfo info = capture_info(context, stream);
  if (info.status() == CaptureStatus::none) fail(CUDA_ERROR_ILLEGAL_STATE, get_info);
  if (info.status() == CaptureStatus::invalidated) fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, get_info);
  capture_ = info.id();
  begin_ = {info.frontier(), info.frontier_edges()};
  begin_.edges.resize(begin_.nodes.size());
}

CaptureFork::~CaptureFork() {
  if (!open_) return;
  CaptureReading reading;
  CUresult result = read(reading);
  const char* call = get_info;
  // The capture is over, or what it captured is lost.
  if (result == CUDA_ERROR_ILLEGAL_STATE || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return;
  if (result == CUDA_SUCCESS) {
    result = join_others(reading);
    call = update;
  } else if (!ends_.nodes.empty()) {
    // Joins even if the driver does not say what the current branch did. The first error is reported below.
    static_cast<void>(try_add_capture_dependencies(context_, stream_, ends_.nodes, ends_.edges));
  }
  if (result != CUDA_SUCCESS) report_error(result, call);
}

void CaptureFork::next_branch() {
  if (!open_)
    throw_error(CUDA_ERROR_ILLEGAL_STATE, "CaptureFork::next_branch",
                "the branches have been joined: make another CaptureFork");
  CaptureReading reading;
  CUresult result = read(reading);
  if (result != CUDA_SUCCESS) fail(result, get_info);
  if (is_at_begin(reading)) return;

  // The driver's arrays end with the next call on the stream.
  const std::size_t before = ends_.nodes.size();
  ends_.nodes.reserve(before + reading.count);
  ends_.edges.reserve(before + reading.count);
  for (std::size_t i = 0; i < reading.count; ++i) {
    const auto known = std::find(ends_.nodes.begin(), ends_.nodes.end(), reading.nodes[i]);
    if (known == ends_.nodes.end()) {
      ends_.nodes.push_back(reading.nodes[i]);
      ends_.edges.push_back(edge_of(reading, i));
    } else if (CUgraphEdgeData& edge = ends_.edges[static_cast<std::size_t>(known - ends_.nodes.begin())];
               !same(edge, edge_of(reading, i))) {
      edge = {}; // waiting for completion is the stronger of the two
    }
  }
  result = try_set_capture_dependencies(context_, stream_, begin_.nodes, begin_.edges);
  if (result == CUDA_SUCCESS) return;
  ends_.nodes.resize(before);
  ends_.edges.resize(before);
  check_update(context_, result);
}

void CaptureFork::join() {
  if (!open_) return;
  CaptureReading reading;
  CUresult result = read(reading);
  if (result != CUDA_SUCCESS) fail(result, get_info);
  result = join_others(reading);
  if (result != CUDA_SUCCESS) check_update(context_, result);
}

CUresult CaptureFork::read(CaptureReading& out) const noexcept {
  const CUresult result = read_capture(out, context_, stream_);
  if (result != CUDA_SUCCESS) return result;
  if (out.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return out.active() && out.id == capture_ ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

bool CaptureFork::is_at_begin(const CaptureReading& reading) const noexcept {
  return std::equal(reading.nodes, reading.nodes + reading.count, begin_.nodes.begin(), begin_.nodes.end());
}

/// The stream is at the end of the last branch. Allocates nothing.
CUresult CaptureFork::join_others(const CaptureReading& reading) noexcept {
  CUresult result = CUDA_SUCCESS;
  if (is_at_begin(reading)) { // the last branch did nothing
    if (!ends_.nodes.empty())
      result = try_set_capture_dependencies(context_, stream_, ends_.nodes, ends_.edges);
  } else {
    for (std::size_t i = 0; i < reading.count; ++i) {
      const auto known = std::find(ends_.nodes.begin(), ends_.nodes.end(), reading.nodes[i]);
      if (known == ends_.nodes.end()) continue;
      const auto edge = ends_.edges.begin() + (known - ends_.nodes.begin());
      if (!same(*edge, edge_of(reading, i))) continue;
      ends_.nodes.erase(known);
      ends_.edges.erase(edge);
    }
    if (!ends_.nodes.empty())
      result = try_add_capture_dependencies(context_, stream_, ends_.nodes, ends_.edges);
  }
  open_ = result != CUDA_SUCCESS;
  return result;
}

void CaptureFork::fail(CUresult result, const char* call) const {
  const char* advice = nullptr;
  if (result == CUDA_ERROR_ILLEGAL_STATE)
    advice = capture_ == 0 ? not_captured
                           : "the capture in which the branches began has ended: join them before its end";
  context_.driver().fail(result, call, advice);
}

}} // namespace cuevent::CUEVENT_ABI
