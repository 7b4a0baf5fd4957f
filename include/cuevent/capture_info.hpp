// SPDX-License-Identifier: MIT
// capture_info: what a stream is being captured into, and what its next work will depend on.
#pragma once

#include <cuevent/capture.hpp>

#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The capture of a stream at the time of capture_info(). Use it to add nodes of your own to
/// somebody else's capture, and to hand over what the nodes refer to.
///
///     StreamCapture capture(context, stream);
///     const CaptureInfo info = capture_info(context, stream);
///     Graph graph = info.graph();              // borrowed
///     graph.add_record(std::move(event), info.frontier()); // after the work that is captured so far
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class CaptureInfo {
public:
  /// The capture of a stream that is not being captured.
  CaptureInfo() noexcept = default;

  CaptureStatus status() const noexcept { return status_; }

  /// Identifies the capture. Forked streams have the id of their capture, and no other capture of
  /// the process ever has it. 0 unless the status is active.
  std::uint64_t id() const noexcept { return id_; }

  /// The graph that the capture builds, borrowed. It is valid until the capture ends, and then as
  /// long as the graph that the capture returns. You may add nodes and hand things over, but not
  /// remove nodes or destroy the graph. Throws IllegalState unless the status is active.
  Graph graph() const;

  /// The frontier: the nodes that the next captured work of the stream will depend on. Empty at the
  /// beginning of a capture, and if the status is not active.
  const std::vector<CUgraphNode>& frontier() const noexcept { return frontier_; }

  /// How the next work depends on each node of frontier(). Empty if it waits for the completion of
  /// all of them, as it usually does. The exceptions are programmatic dependencies between kernels
  /// (CUDA 12.3).
  const std::vector<CUgraphEdgeData>& frontier_edges() const noexcept { return edges_; }

private:
  friend CUresult try_capture_info(CaptureInfo& out, const Context& context, CUstream stream) noexcept;

  Context context_;
  CaptureStatus status_ = CaptureStatus::none;
  std::uint64_t id_ = 0;
  CUgraph graph_ = nullptr;
  std::vector<CUgraphNode> frontier_;
  std::vector<CUgraphEdgeData> edges_;
};

/// Describes the capture that `stream` is part of, as its origin or as a fork. `context` says whose
/// default stream is meant. Driver function: cuStreamGetCaptureInfo. Throws InvalidContext for an
/// empty Context, StreamCaptureImplicit for the legacy stream while a blocking stream of its
/// context is being captured.
/// Thread-safety: any thread. The caller orders the call with submissions to `stream`.
/// Context: acts in `context` and leaves the caller's current context unchanged.
/// During capture: harmless in every mode, even if it throws.
CaptureInfo capture_info(const Context& context, CUstream stream);

/// The non-throwing overload. `out` is assigned on success only.
[[nodiscard]] CUresult try_capture_info(CaptureInfo& out, const Context& context, CUstream stream) noexcept;

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
