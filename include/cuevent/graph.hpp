// SPDX-License-Identifier: MIT
// Graph and GraphExec: event nodes in CUDA graphs, and the events that graphs own.
#pragma once

#include <cuevent/array_view.hpp>
#include <cuevent/callback.hpp>
#include <cuevent/end_notice.hpp>
#include <cuevent/event_ref.hpp>
#include <cuevent/retired_events.hpp>

#include <initializer_list>
#include <new>
#include <type_traits>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// A graph node that records an event at each launch. The graph owns the node: after the graph's end, or
/// after cuGraphDestroyNode, no call may use the node, not even a call of an exec that was made from the
/// graph. The node of a clone lives as long as the clone.
class EventRecordNode {
public:
  EventRecordNode() noexcept = default; ///< no node
  explicit EventRecordNode(CUgraphNode node) noexcept : node_(node) {}
  CUgraphNode native_handle() const noexcept { return node_; }
  friend bool operator==(EventRecordNode a, EventRecordNode b) noexcept { return a.node_ == b.node_; }
  friend bool operator!=(EventRecordNode a, EventRecordNode b) noexcept { return !(a == b); }

private:
  CUgraphNode node_ = nullptr;
};

/// A graph node that waits for an event at each launch. Lives as long as an EventRecordNode.
class EventWaitNode {
public:
  EventWaitNode() noexcept = default; ///< no node
  explicit EventWaitNode(CUgraphNode node) noexcept : node_(node) {}
  CUgraphNode native_handle() const noexcept { return node_; }
  friend bool operator==(EventWaitNode a, EventWaitNode b) noexcept { return a.node_ == b.node_; }
  friend bool operator!=(EventWaitNode a, EventWaitNode b) noexcept { return !(a == b); }

private:
  CUgraphNode node_ = nullptr;
};

class GraphExec;

/// A CUgraph that this object owns or borrows. Use it to put events into graphs and to hand events
/// over to graphs. Move-only; members of an empty graph throw InvalidHandle. A member `try_name` is the
/// non-throwing overload of `name`. It assigns its first argument on success only.
///
///     Graph graph(context);
///     graph.add_record(std::move(event)); // each launch records the event, which the graph owns now
///
/// Thread-safety: the caller orders all members, as for the driver's graphs.
/// Context: the graph's context is made current for instantiate() only.
/// During capture: instantiate() is refused and invalidates the capture, unless the thread is in
/// relaxed mode. All other members are harmless.
class Graph {
  template <class Object>
  using IfNoEvent = std::enable_if_t<!std::is_same_v<std::decay_t<Object>, DriverEvent>, int>;
  template <class Object>
  static constexpr void check_object() noexcept {
    static_assert(!std::is_lvalue_reference_v<Object>, "the graph takes the object over: std::move it");
    static_assert(
        !std::is_trivially_destructible_v<std::decay_t<Object>>,
        "the graph would keep nothing: a handle, a pointer, a number or an EventRef owns nothing, so "
        "move the object that does");
  }
  template <class Callback>
  static constexpr void check_callback() noexcept {
    using Value = std::decay_t<Callback>;
    static_assert(std::is_invocable_v<Value&>, "the callback is called without arguments");
    static_assert(std::is_nothrow_move_constructible_v<Value>, "the callback moves without throwing");
    static_assert(std::is_nothrow_constructible_v<Value, Callback&&>,
                  "the callback is taken over without throwing: std::move it");
  }

public:
  /// No graph, for try_create() and assignment. No driver call.
  Graph() noexcept = default;

  /// Creates a graph without nodes. Driver function: cuGraphCreate.
  explicit Graph(const Context& context);
  [[nodiscard]] static CUresult try_create(Graph& out, const Context& context) noexcept;

  /// Takes ownership of `graph`. No driver call. Throws InvalidHandle for null.
  [[nodiscard]] static Graph from_native_handle(const Context& context, CUgraph graph);
  /// Refers to `graph` without owning it. The caller keeps the graph alive. No driver call. Throws
  /// InvalidHandle for null.
  [[nodiscard]] static Graph borrow(const Context& context, CUgraph graph);

  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  /// Destroys an owned graph, and all events that other graphs have released so far
  /// (retired_events.hpp). So the call can wait as ~DriverEvent does, even if this graph owned no
  /// events. An event can be the last owner of its context, and then the context ends too. Driver
  /// functions: cuGraphDestroy, cuEventDestroy. Errors go to the error hook.
  ~Graph();

  /// Adds a node that records `event`, or waits for it, after the nodes in `after` have completed.
  /// `event` must outlive the graph, every GraphExec made from it and their last launch. Otherwise a launch
  /// is undefined and can hang. Give `event` by std::move, or call retain(), to hand it over to the graph.
  /// Driver functions: cuGraphAddEventRecordNode, cuGraphAddEventWaitNode. Throws EmptyEvent, and
  /// NotSupported for an event on lease: call PooledEvent::detach() first.
  EventRecordNode add_record(EventRef event, ArrayView<CUgraphNode> after = {});
  EventRecordNode add_record(EventRef event, std::initializer_list<CUgraphNode> after);
  EventWaitNode add_wait(EventRef event, ArrayView<CUgraphNode> after = {});
  EventWaitNode add_wait(EventRef event, std::initializer_list<CUgraphNode> after);
  [[nodiscard]] CUresult try_add_record(EventRecordNode& out, EventRef event,
                                        ArrayView<CUgraphNode> after = {}) noexcept;
  [[nodiscard]] CUresult try_add_wait(EventWaitNode& out, EventRef event,
                                      ArrayView<CUgraphNode> after = {}) noexcept;

  /// The same, and the graph owns `event` from then on: as retain(). If this throws, the caller still owns
  /// `event`. Driver functions: also as retain(). Throws also as retain().
  EventRecordNode add_record(DriverEvent&& event, ArrayView<CUgraphNode> after = {});
  EventRecordNode add_record(DriverEvent&& event, std::initializer_list<CUgraphNode> after);
  EventWaitNode add_wait(DriverEvent&& event, ArrayView<CUgraphNode> after = {});
  EventWaitNode add_wait(DriverEvent&& event, std::initializer_list<CUgraphNode> after);
  [[nodiscard]] CUresult try_add_record(EventRecordNode& out, DriverEvent&& event,
                                        ArrayView<CUgraphNode> after = {}) noexcept;
  [[nodiscard]] CUresult try_add_wait(EventWaitNode& out, DriverEvent&& event,
                                      ArrayView<CUgraphNode> after = {}) noexcept;

  /// The event of a node. The caller does not own it. Driver functions:
  /// cuGraphEventRecordNodeGetEvent, cuGraphEventWaitNodeGetEvent. Throws InvalidValue for other nodes.
  CUevent event(EventRecordNode node) const;
  CUevent event(EventWaitNode node) const;
  [[nodiscard]] CUresult try_event(CUevent& out, EventRecordNode node) const noexcept;
  [[nodiscard]] CUresult try_event(CUevent& out, EventWaitNode node) const noexcept;

  /// Points a node at another event, in this graph and in execs that are instantiated later.
  /// Existing execs do not change. Driver functions: cuGraphEventRecordNodeSetEvent,
  /// cuGraphEventWaitNodeSetEvent. Throws as add_record(), and InvalidValue for another kind of node.
  void set_event(EventRecordNode node, EventRef event);
  void set_event(EventWaitNode node, EventRef event);
  [[nodiscard]] CUresult try_set_event(EventRecordNode node, EventRef event) noexcept;
  [[nodiscard]] CUresult try_set_event(EventWaitNode node, EventRef event) noexcept;

  /// The same, and the graph owns `event` from then on: as retain(). The graph also keeps the event that the
  /// node had before if it owns that one, because execs can refer to it. If this throws, the caller owns
  /// `event`. Driver functions: also as retain(). Throws also as retain().
  void set_event(EventRecordNode node, DriverEvent&& event);
  void set_event(EventWaitNode node, DriverEvent&& event);
  [[nodiscard]] CUresult try_set_event(EventRecordNode node, DriverEvent&& event) noexcept;
  [[nodiscard]] CUresult try_set_event(EventWaitNode node, DriverEvent&& event) noexcept;

  struct EventNodes {
    std::vector<EventRecordNode> records;
    std::vector<EventWaitNode> waits;
  };
  /// All event nodes, in unspecified order. In a captured graph these are the external records and
  /// waits. event() returns the event of a node. Driver functions: cuGraphGetNodes,
  /// cuGraphNodeGetType.
  EventNodes event_nodes() const;
  [[nodiscard]] CUresult try_event_nodes(EventNodes& out) const noexcept;

  /// The node that records `event` or waits for it. Driver functions: as event_nodes(), and as event() for
  /// each node. Throws EmptyEvent, NotFound if there is no such node, InvalidValue if there are several.
  EventRecordNode record_node(EventRef event) const;
  EventWaitNode wait_node(EventRef event) const;
  [[nodiscard]] CUresult try_record_node(EventRecordNode& out, EventRef event) const noexcept;
  [[nodiscard]] CUresult try_wait_node(EventWaitNode& out, EventRef event) const noexcept;

  /// Hands `event` over to the graph, which owns it from then on, through a user object. The event
  /// lives until the graph and every exec made from it afterwards are destroyed, and their launches
  /// have completed. Then the event is retired: retired_events.hpp says who destroys it.
  ///
  /// An exec that exists already does not own the event. For GraphExec::set_event, do not retain
  /// the event but call set_event(node, DriverEvent&&).
  ///
  /// Driver functions: cuUserObjectCreate, cuGraphRetainUserObject. Throws EmptyEvent. If this
  /// throws, the caller still owns `event`. A launch of an exec with user objects costs the host
  /// about 1.7 us more (NVIDIA H100, 2026-11-21), and takes more places in the launch queue:
  /// docs/threads-that-must-not-hang.md.
  void retain(DriverEvent&& event);
  void retain(const DriverEvent& event) = delete; // the graph takes the event over: std::move it
  [[nodiscard]] CUresult try_retain(DriverEvent&& event) noexcept;
  CUresult try_retain(const DriverEvent& event) noexcept = delete; // the graph takes it over: std::move it

  /// Hands any other movable object over to the graph, for example memory that nodes use, a lease
  /// or a std::shared_ptr: graph.retain(std::move(lease)). The object lives as long as an event that
  /// is retained. Then only destroy_retired() destroys it, so its destructor may call the driver. Driver
  /// functions and cost: as retain(DriverEvent&&). If this throws, `object` is not moved from, unless its
  /// move constructor throws. What owns nothing does not compile: a handle, a pointer, an EventRef.
  template <class Object, IfNoEvent<Object> = 0>
  void retain(Object&& object) {
    using Value = std::decay_t<Object>;
    check_object<Object>();
    auto* const kept = new Kept<Value>;
    kept->end = Kept<Value>::destroy;
    keep(kept); // an empty entry ends silently
    kept->hold(static_cast<Object&&>(object));
  }
  /// `object` must move without throwing.
  template <class Object, IfNoEvent<Object> = 0>
  [[nodiscard]] CUresult try_retain(Object&& object) noexcept {
    using Value = std::decay_t<Object>;
    check_object<Object>();
    static_assert(std::is_nothrow_constructible_v<Value, Object&&>, "the object moves without throwing");
    return keep_new<Value>(Kept<Value>::destroy, static_cast<Object&&>(object));
  }

  /// Tells an observer when the graph and every exec made from it afterwards are destroyed, and
  /// their launches have completed: the next destroy_retired() calls `callback()` once. Use it for a borrowed
  /// graph of somebody else, for example CaptureInfo::graph(). If a capture ends without a graph, its graph
  /// is destroyed at that moment. `callback` must move without throwing. Exceptions that it throws go to the
  /// error hook. Driver functions and cost: as retain(DriverEvent&&). Throws also InvalidValue for a null
  /// function. If this throws, `callback` is neither moved from nor called.
  ///
  /// destroy_retired() also destroys events, and so it waits while another thread is blocked on a full launch
  /// queue. To learn of the end on a thread that must not wait, use end_notice().
  template <class Callback>
  void when_destroyed(Callback&& callback) {
    using Value = std::decay_t<Callback>;
    check_callback<Callback>();
    if (is_null_callback<Value>(callback)) fail_null_callback("Graph::when_destroyed");
    auto* const kept = new Kept<Value>;
    kept->end = Kept<Value>::call;
    keep(kept);
    kept->hold(static_cast<Callback&&>(callback));
  }
  template <class Callback>
  [[nodiscard]] CUresult try_when_destroyed(Callback&& callback) noexcept {
    using Value = std::decay_t<Callback>;
    check_callback<Callback>();
    if (is_null_callback<Value>(callback)) return CUDA_ERROR_INVALID_VALUE;
    return keep_new<Value>(Kept<Value>::call, static_cast<Callback&&>(callback));
  }

  /// A notice that says when the graph and every exec made from it afterwards are destroyed, and their
  /// launches have completed. Unlike when_destroyed(), it does not depend on any call after this one. Works
  /// for a borrowed graph of somebody else in the same way. Driver functions and cost, for each notice that
  /// is not a copy: as retain(DriverEvent&&). Throws OutOfMemory.
  [[nodiscard]] EndNotice end_notice();
  [[nodiscard]] CUresult try_end_notice(EndNotice& out) noexcept;

  /// Makes an exec from the graph as it is now. Driver function: cuGraphInstantiateWithFlags. Throws
  /// InvalidValue if the body of a conditional node has a node that it cannot have, such as an event
  /// node.
  [[nodiscard]] GraphExec instantiate() const;
  [[nodiscard]] CUresult try_instantiate(GraphExec& out) const noexcept;

  /// Gives up the handle without destroying it. The graph is empty afterwards, and the caller owns
  /// the handle if this object did. No driver call.
  [[nodiscard]] CUgraph release() noexcept;

  CUgraph native_handle() const noexcept { return graph_; }
  const Context& context() const noexcept { return context_; }
  explicit operator bool() const noexcept { return graph_ != nullptr; }
  void swap(Graph& other) noexcept;

private:
  friend struct Explanation;

  /// An object or a callback that the graph keeps. Empty until hold().
  template <class Value>
  struct Kept : RetiredObject {
    Kept() noexcept {}
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    ~Kept() {
      if (holds) value.~Value();
    }

    template <class Given>
    void hold(Given&& given) {
      ::new (static_cast<void*>(&value)) Value(static_cast<Given&&>(given));
      holds = true;
    }
    static void destroy(RetiredObject* self) { delete static_cast<Kept*>(self); }
    static void call(RetiredObject* self) {
      auto* const kept = static_cast<Kept*>(self);
      if (!kept->holds) return destroy(self);
      Value callback(static_cast<Value&&>(kept->value));
      destroy(self);
      static_cast<void>(callback());
    }

    union {
      Value value;
    };
  };

  /// Makes the graph the owner of `kept`. If this throws, `kept` has ended.
  void keep(RetiredObject* kept);
  [[nodiscard]] CUresult hand_over(RetiredObject* kept) noexcept;
  template <class Value, class Given>
  CUresult keep_new(void (*end)(RetiredObject*), Given&& given) noexcept {
    auto* const kept = new (std::nothrow) Kept<Value>;
    if (kept == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    kept->end = end;
    const CUresult result = hand_over(kept);
    if (result == CUDA_SUCCESS) kept->hold(static_cast<Given&&>(given));
    return result;
  }
  [[gnu::visibility("hidden")]] Graph(const Context& context, CUgraph graph, Ownership ownership) noexcept;
  const DriverTable& table() const noexcept { return context_.driver().table(); }

  // Called only after a failure, to find out why the call was refused.
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call) const;
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call, EventRef event) const;
  [[noreturn, gnu::cold]] void fail_retain(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_retain(CUresult result, EventRef event) const;
  [[noreturn, gnu::cold]] void fail_find(CUresult result, const char* call, EventRef event) const;
  [[noreturn, gnu::cold]] void fail_instantiate(CUresult result) const;

  Context context_;
  CUgraph graph_ = nullptr;
  Ownership ownership_ = Ownership::borrowed;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
