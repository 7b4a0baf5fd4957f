// SPDX-License-Identifier: MIT
// CaptureFork: branches inside a captured stream, without events or further streams. Two functions
// change the frontier by hand.
#pragma once

#include <cuevent/capture_info.hpp>

#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Adds `nodes` to the frontier of a captured stream, or replaces the frontier with them: the next
/// captured work of `stream` depends on the frontier. `nodes` belong to the graph of the capture.
/// `edges` has one element for each node, or none if the next work waits for the completion of all
/// nodes. `context` says whose default stream is meant. NVIDIA documents that nodes which these
/// calls remove from the frontier never make a capture unjoined. Driver function:
/// cuStreamUpdateCaptureDependencies. Throws:
/// - IllegalState if `stream` is not being captured.
/// - StreamCaptureInvalidated if its capture is invalidated.
/// - InvalidValue for a node of another graph, or another number of edges.
/// - NotSupported for edges before CUDA 12.3.
/// Thread-safety: the caller orders the call with submissions to `stream`.
/// Context: acts in `context` and leaves the caller's current context unchanged.
/// During capture: changes the capture that `stream` is part of, and harms no other.
void add_capture_dependencies(const Context& context, CUstream stream, ArrayView<CUgraphNode> nodes,
                              ArrayView<CUgraphEdgeData> edges = {});
void set_capture_dependencies(const Context& context, CUstream stream, ArrayView<CUgraphNode> nodes,
                              ArrayView<CUgraphEdgeData> edges = {});

/// The non-throwing overloads.
[[nodiscard]] CUresult try_add_capture_dependencies(const Context& context, CUstream stream,
                                                    ArrayView<CUgraphNode> nodes,
                                                    ArrayView<CUgraphEdgeData> edges = {}) noexcept;
[[nodiscard]] CUresult try_set_capture_dependencies(const Context& context, CUstream stream,
                                                    ArrayView<CUgraphNode> nodes,
                                                    ArrayView<CUgraphEdgeData> edges = {}) noexcept;

struct CaptureReading; // inside the library

/// Branches of a capture that all go to one stream. The constructor opens the first branch,
/// next_branch() opens another one at the same place, and join() or the destructor joins them all:
/// work after it depends on every branch. No branch stays unjoined, even if an exception ends the
/// scope. Forks nest.
///
///     StreamCapture capture(context, stream);
///     CaptureFork fork(context, stream);
///     submit(stream);
///     fork.next_branch();
///     submit(stream); // at each launch, independent of the work before next_branch()
///     fork.join();
///
/// Thread-safety: the caller orders all members with submissions to the stream.
/// Context: acts in `context` and leaves the caller's current context unchanged.
/// During capture: changes the capture that the stream is part of, and harms no other.
class CaptureFork {
public:
  /// Remembers the frontier of `stream`, where every branch begins. Driver function:
  /// cuStreamGetCaptureInfo. Throws IllegalState if `stream` is not being captured, and as
  /// capture_info().
  [[nodiscard]] explicit CaptureFork(const Context& context, CUstream stream);
  CaptureFork(const CaptureFork&) = delete;
  CaptureFork& operator=(const CaptureFork&) = delete;

  /// As join(). Errors go to the error hook. There is no error if the capture has ended or is
  /// invalidated, because then there is nothing to join.
  ~CaptureFork();

  /// Ends the current branch and begins another one. A branch without work leaves no trace. If
  /// this throws, the current branch goes on. Driver functions: cuStreamGetCaptureInfo,
  /// cuStreamUpdateCaptureDependencies. Throws IllegalState after join(), and if the stream is no
  /// longer in the capture of the constructor.
  void next_branch();

  /// Joins all branches: the frontier becomes the union of their ends. Call it before the end of
  /// the scope to get errors as exceptions. A second call has no effect. If this throws, the
  /// destructor tries again. Driver functions and exceptions: as next_branch().
  void join();

private:
  /// Nodes, and how later work depends on each of them.
  struct Nodes {
    std::vector<CUgraphNode> nodes;
    std::vector<CUgraphEdgeData> edges;
  };

  /// What the driver says about the stream, if it is still in the capture of the constructor.
  [[gnu::visibility("hidden")]] CUresult read(CaptureReading& out) const noexcept;
  [[gnu::visibility("hidden")]] bool is_at_begin(const CaptureReading& reading) const noexcept;
  [[gnu::visibility("hidden")]] CUresult join_others(const CaptureReading& reading) noexcept;
  [[noreturn, gnu::cold, gnu::visibility("hidden")]] void fail(CUresult result, const char* call) const;

  Context context_;
  CUstream stream_;
  std::uint64_t capture_ = 0;
  Nodes begin_;
  Nodes ends_; // of the branches before the current one, without those that did nothing
  bool open_ = true;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
