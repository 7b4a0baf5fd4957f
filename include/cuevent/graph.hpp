// Graphs: events as nodes of CUDA graphs, read back, re-pointed and kept alive.
#pragma once

#include <cuevent/array_view.hpp>
#include <cuevent/driver_event.hpp>

#include <initializer_list>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent {

/// A node of a graph that records an event at each launch.
class EventRecordNode {
public:
  explicit EventRecordNode(CUgraphNode node) noexcept : node_(node) {}
  CUgraphNode native_handle() const noexcept { return node_; }
  friend bool operator==(EventRecordNode a, EventRecordNode b) noexcept { return a.node_ == b.node_; }
  friend bool operator!=(EventRecordNode a, EventRecordNode b) noexcept { return !(a == b); }

private:
  CUgraphNode node_;
};

/// A node of a graph that waits for an event at each launch.
class EventWaitNode {
public:
  explicit EventWaitNode(CUgraphNode node) noexcept : node_(node) {}
  CUgraphNode native_handle() const noexcept { return node_; }
  friend bool operator==(EventWaitNode a, EventWaitNode b) noexcept { return a.node_ == b.node_; }
  friend bool operator!=(EventWaitNode a, EventWaitNode b) noexcept { return !(a == b); }

private:
  CUgraphNode node_;
};

class GraphExec;

/// A CUgraph, which it destroys unless it borrows it. Move-only; empty after a move or release(), and calls
/// on an empty one throw InvalidHandle.
///
/// Whoever puts an event into a graph by reference keeps it alive until the graph, and every GraphExec made
/// from it, is destroyed and their last launch has completed: launching a graph whose event is gone is
/// undefined, and was seen to hang. retain() hands that duty to the graph.
///
/// Thread-safety: under the caller's ordering, as the driver's graphs are.
/// Context: the graph's own, made current for instantiate() alone.
/// During capture: building a graph harms no capture; instantiate() is refused, and invalidates it, unless
/// the thread's capture mode is relaxed.
class Graph {
public:
  /// An empty graph. Driver function: cuGraphCreate.
  explicit Graph(const Context& context);

  /// Takes ownership of `graph`. Throws InvalidHandle for null.
  static Graph from_native_handle(const Context& context, CUgraph graph);
  /// Refers to `graph`, and never destroys it. Throws InvalidHandle for null.
  static Graph borrow(const Context& context, CUgraph graph);

  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  /// Destroys an owned graph, and the events that graphs have released so far. Driver functions:
  /// cuGraphDestroy, cuEventDestroy, which can wait as ~DriverEvent. Such an event can be the last owner of its
  /// context, which then ends with it: retired_events.hpp.
  ~Graph();

  /// Adds a node that records, or waits for, `event` once the nodes of `after` are done.
  /// Driver functions: cuGraphAddEventRecordNode, cuGraphAddEventWaitNode. Throws EmptyEvent.
  EventRecordNode add_record(const DriverEvent& event, ArrayView<CUgraphNode> after = {});
  EventRecordNode add_record(const DriverEvent& event, std::initializer_list<CUgraphNode> after);
  EventWaitNode add_wait(const DriverEvent& event, ArrayView<CUgraphNode> after = {});
  EventWaitNode add_wait(const DriverEvent& event, std::initializer_list<CUgraphNode> after);

  /// The event of a node. Driver functions: cuGraphEventRecordNodeGetEvent, cuGraphEventWaitNodeGetEvent.
  CUevent event(EventRecordNode node) const;
  CUevent event(EventWaitNode node) const;

  /// Points a node at another event, here and in what is instantiated from now on; no GraphExec changes.
  /// Driver functions: cuGraphEventRecordNodeSetEvent, cuGraphEventWaitNodeSetEvent. Throws EmptyEvent.
  void set_event(EventRecordNode node, const DriverEvent& event);
  void set_event(EventWaitNode node, const DriverEvent& event);

  struct EventNodes {
    std::vector<EventRecordNode> records;
    std::vector<EventWaitNode> waits;
  };
  /// All event nodes; of a captured graph, those that external records and waits have made. In no given
  /// order: event() tells which is which. Driver functions: cuGraphGetNodes, cuGraphNodeGetType.
  EventNodes event_nodes() const;

  /// The node that records, or waits for, `event`, for example to point it at another. Driver
  /// functions: those of event_nodes(), and of event() for each such node. Throws EmptyEvent,
  /// NotFound if there is none, InvalidValue if there are several.
  EventRecordNode record_node(const DriverEvent& event) const;
  EventWaitNode wait_node(const DriverEvent& event) const;

  /// Hands `event` to the graph, which keeps it until the graph and all that is instantiated from it from now
  /// on are destroyed and have run; then the end of another graph or exec, or collect(), destroys it. Not for
  /// an event given to GraphExec::set_event. A launch of an exec that keeps something costs the host 1.7 us
  /// more, and 20 to 60 such launches fill the launch queue of a stream, in place of 1,020. Driver functions:
  /// cuUserObjectCreate, cuGraphRetainUserObject. Throws EmptyEvent; the event then stays the caller's.
  void retain(DriverEvent&& event);

  /// Driver function: cuGraphInstantiateWithFlags.
  GraphExec instantiate() const;

  /// Gives the handle away undestroyed; the graph is empty afterwards.
  CUgraph release() noexcept;

  CUgraph native_handle() const noexcept { return graph_; }
  const Context& context() const noexcept { return context_; }
  explicit operator bool() const noexcept { return graph_ != nullptr; }
  void swap(Graph& other) noexcept;

private:
  Graph(const Context& context, CUgraph graph, bool owned) noexcept;
  const DriverTable& table() const noexcept { return context_.driver().table(); }

  Context context_;
  CUgraph graph_ = nullptr;
  bool owned_ = false;
};

/// A graph that can be launched: a CUgraphExec, which it destroys unless it borrows it. Move-only, empty as
/// Graph.
///
/// Thread-safety: under the caller's ordering.
/// Context: launch() on a default stream means that of the graph's context, which is made current for it;
/// nothing else needs one.
/// During capture: set_event() is harmless; a launch into a captured stream is refused and invalidates the
/// capture.
class GraphExec {
public:
  /// Takes ownership of `exec`. Throws InvalidHandle for null.
  static GraphExec from_native_handle(const Context& context, CUgraphExec exec);
  /// Refers to `exec`, and never destroys it. Throws InvalidHandle for null.
  static GraphExec borrow(const Context& context, CUgraphExec exec);

  GraphExec(GraphExec&& other) noexcept;
  GraphExec& operator=(GraphExec&& other) noexcept;
  /// Destroys an owned exec, the events it was given and those that graphs have released so far. If it was
  /// given any, the last launch has to have completed. Driver functions: cuGraphExecDestroy, cuEventDestroy. Such an
  /// event can be the last owner of its context, which then ends with it: retired_events.hpp.
  ~GraphExec();

  /// Submits the graph to `stream`. Driver function: cuGraphLaunch.
  void launch(CUstream stream);

  /// Points a node at another event, from the next launch on; the graph does not change. `node` is one of the
  /// graph that this was instantiated from. The caller keeps the event alive until the node has another and
  /// the last launch with it has completed. Driver functions: cuGraphExecEventRecordNodeSetEvent,
  /// cuGraphExecEventWaitNodeSetEvent. Throws EmptyEvent; InvalidValue for an event of another context or a
  /// node of another graph.
  void set_event(EventRecordNode node, const DriverEvent& event);
  void set_event(EventWaitNode node, const DriverEvent& event);

  /// The same, and keeps the event. Returns the one that it kept for this node before, empty if none: it has
  /// to outlive the launches that it was used by, and has their times. If this throws, the event stays the
  /// caller's.
  [[nodiscard]] DriverEvent set_event(EventRecordNode node, DriverEvent&& event);
  [[nodiscard]] DriverEvent set_event(EventWaitNode node, DriverEvent&& event);

  /// Gives the handle away undestroyed, and with it the events it kept; empty afterwards.
  CUgraphExec release() noexcept;

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
  GraphExec(const Context& context, CUgraphExec exec, bool owned) noexcept;
  const DriverTable& table() const noexcept { return context_.driver().table(); }
  template <class Node>
  [[gnu::visibility("hidden")]] DriverEvent keep(Node node, DriverEvent&& event);

  Context context_;
  CUgraphExec exec_ = nullptr;
  bool owned_ = false;
  std::vector<Kept> kept_;
};

} // namespace cuevent
#pragma GCC visibility pop
