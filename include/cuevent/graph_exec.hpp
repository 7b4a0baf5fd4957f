// SPDX-License-Identifier: MIT
/// \file
/// \brief GraphExec: an executable graph, whose event nodes can change between launches.
#pragma once

#include <cuevent/graph.hpp>

#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// A CUgraphExec that this object owns or borrows: a graph that can be launched. Move-only;
/// members of an empty exec throw InvalidHandle. Non-throwing overloads: as Graph.
///
///     GraphExec exec = graph.instantiate();
///     exec.launch(stream);
///     exec.launch(stream);
///
/// Thread-safety: the caller orders all members.
/// Context: a default stream means one of the graph's context, which is made current for its
/// launch() only.
/// During capture: a launch into a capturing stream is refused and invalidates the capture.
/// set_event() is harmless.
class GraphExec {
public:
  /// No exec, for Graph::try_instantiate() and assignment. No driver call.
  GraphExec() noexcept = default;

  /// Takes ownership of `exec`. No driver call. Throws InvalidHandle for null.
  [[nodiscard]] static GraphExec from_native_handle(const Context& context, CUgraphExec exec);
  /// Refers to `exec` without owning it. The caller keeps the exec alive. No driver call. Throws
  /// InvalidHandle for null.
  [[nodiscard]] static GraphExec borrow(const Context& context, CUgraphExec exec);

  GraphExec(GraphExec&& other) noexcept;
  GraphExec& operator=(GraphExec&& other) noexcept;
  /// Destroys an owned exec, the events that set_event(node, DriverEvent&&) gave to it, and all
  /// events that graphs have released so far (retired_events.hpp). If set_event() gave events to
  /// this exec, its last launch must have completed. Events of Graph::retain() do not have this requirement.
  /// The call can wait as ~DriverEvent does. An event can be the last owner of its context, and then the
  /// context ends too. If its context has ended, the exec has ended too, and nothing destroys it again.
  /// Driver functions: cuCtxGetId, cuGraphExecDestroy, cuEventDestroy. Errors go to the error hook.
  ~GraphExec();

  /// Submits the graph to `stream`. Driver function: cuGraphLaunch.
  void launch(CUstream stream);
  [[nodiscard]] CUresult try_launch(CUstream stream) noexcept;

  /// Points a node at another event from the next launch on. The graph does not change. `node`
  /// must be a node of the graph that this exec was made from, which must still exist: keep the Graph for as
  /// long as you set events. The caller keeps `event` alive until the node has another event and the last
  /// launch with `event` has completed. Driver functions: cuGraphExecEventRecordNodeSetEvent,
  /// cuGraphExecEventWaitNodeSetEvent. Throws EmptyEvent, NotSupported for an event on lease, InvalidValue
  /// for an event of another context, a node of another graph, and a node whose graph has ended.
  void set_event(EventRecordNode node, EventRef event);
  void set_event(EventWaitNode node, EventRef event);
  [[nodiscard]] CUresult try_set_event(EventRecordNode node, EventRef event) noexcept;
  [[nodiscard]] CUresult try_set_event(EventWaitNode node, EventRef event) noexcept;

  /// As set_event(node, EventRef), and this object owns `event` from then on. Returns the
  /// event that this object owned for the node before, or an empty event. The returned event holds
  /// the times of earlier launches, and must outlive the launches that use it. If this throws, the
  /// caller still owns `event`.
  [[nodiscard]] DriverEvent set_event(EventRecordNode node, DriverEvent&& event);
  [[nodiscard]] DriverEvent set_event(EventWaitNode node, DriverEvent&& event);
  [[nodiscard]] CUresult try_set_event(DriverEvent& before, EventRecordNode node,
                                       DriverEvent&& event) noexcept;
  [[nodiscard]] CUresult try_set_event(DriverEvent& before, EventWaitNode node, DriverEvent&& event) noexcept;

  /// Gives up the handle, and the events that set_event() gave to this object, without destroying
  /// them. The exec is empty afterwards, and the caller owns the handle if this object did. No
  /// driver call.
  [[nodiscard]] CUgraphExec release() noexcept;

  CUgraphExec native_handle() const noexcept { return exec_; }
  const Context& context() const noexcept { return context_; }
  explicit operator bool() const noexcept { return exec_ != nullptr; }
  void swap(GraphExec& other) noexcept;

private:
  friend class Graph;
  struct Kept {
    CUgraphNode node;
    DriverEvent event;
  };
  [[gnu::visibility("hidden")]] GraphExec(const Context& context, CUgraphExec exec,
                                          Ownership ownership) noexcept;
  [[gnu::visibility("hidden")]] void destroy() noexcept;
  const DriverTable& table() const noexcept { return context_.driver().table(); }
  template <class Node>
  [[gnu::visibility("hidden")]] CUresult keep(DriverEvent& before, Node node, DriverEvent&& event) noexcept;

  friend struct Explanation;
  // Called only after a failure, to find out why the call was refused.
  [[noreturn, gnu::cold]] void fail_launch(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_set_event(CUresult result, EventRecordNode node, EventRef event) const;
  [[noreturn, gnu::cold]] void fail_set_event(CUresult result, EventWaitNode node, EventRef event) const;

  Context context_;
  CUgraphExec exec_ = nullptr;
  Ownership ownership_ = Ownership::borrowed;
  std::vector<Kept> kept_;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
