// SPDX-License-Identifier: MIT
#pragma once

#include "capture.hpp"
#include "computer.hpp"
#include "event.hpp"
#include "graph.hpp"
#include "stream.hpp"

#include <initializer_list>
#include <memory>
#include <string>

namespace cuevent::sim {

struct Module : Object {
  Birthplace home;
  std::string image;
};

struct Function : Object {
  std::shared_ptr<Module> module;
  std::string name;
};

struct GreenContext : Object {
  std::shared_ptr<Context> context;
};

struct ResourceDescription : Object {};

/// One driver call of one process, made under the computer's lock. Has one member for each driver
/// entry, and helpers that the entries share.
class Api {
public:
  Api(Computer& computer, Computer::Lock& lock, Process& process, bool per_thread_default)
      : computer_(computer), lock_(lock), process_(process), per_thread_default_(per_thread_default) {}

#define ENTRY(gate, name, version, symbol, parameters, arguments) CUresult symbol parameters;
#define STREAM_ENTRY(gate, name, version, thread_version, suffix, symbol, parameters, arguments)             \
  CUresult symbol parameters;
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY

private:
  // Handle lookup
  std::shared_ptr<Context> current_context();
  /// A device accepts a push of a dead context. Creating an object in a dead context is undefined.
  std::shared_ptr<Context> context_to_create_in();
  std::shared_ptr<Context> context(CUcontext); ///< refuses a dead one
  std::shared_ptr<Context> context_even_dead(CUcontext);
  std::shared_ptr<Stream> stream(CUstream);
  std::shared_ptr<Stream> default_stream(bool per_thread);
  std::shared_ptr<Event> event(CUevent);
  std::shared_ptr<Graph> graph(CUgraph);
  std::shared_ptr<Node> node(CUgraphNode);
  std::shared_ptr<Node> node(CUgraphNode, CUgraphNodeType);
  std::shared_ptr<Exec> exec(CUgraphExec);
  template <class T>
  std::shared_ptr<T> find(const void* handle, Kind kind) {
    refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
    return computer_.handles.find<T>(handle, kind, process_);
  }
  void require_alive(const Birthplace&, const Object&);
  int device(CUdevice);

  template <class T>
  std::shared_ptr<T> make(Kind, const Context* where);
  std::string history(const Context* where) const;
  std::string ending() const; ///< "destroyed by ... in call #..."
  ThreadState& thread() { return computer_.this_thread(process_); }

  // Contexts
  std::shared_ptr<Context> new_context(Context::Type, int device);
  CUresult create_context(CUcontext*, unsigned flags, CUdevice);
  std::shared_ptr<Context> retain_primary(int device);
  void release_primary(Context&);
  void kill(Context&);
  std::shared_ptr<Stream> new_default_stream(const std::shared_ptr<Context>&, Stream::Type);
  CUresult synchronize_context(const std::shared_ptr<Context>&);
  CUresult record_in_context(const std::shared_ptr<Context>&, CUevent);
  CUresult wait_in_context(const std::shared_ptr<Context>&, CUevent);
#if CUDA_VERSION >= 12040
  std::shared_ptr<Context> green(CUgreenCtx);
#endif

  // Streams
  CUresult create_stream(CUstream*, std::shared_ptr<Context>, unsigned flags, int priority);
  bool idle(const Stream&) const;
  bool unseen(const Stream&, const Work&) const;
  std::vector<std::shared_ptr<Operation>> tails(const Context&, bool blocking_only) const;
  bool holds_only_waits(const Stream&) const;
  void implicit_check(const Stream&);
  std::vector<Capture*> captures_beside(const Stream&) const;
  /// Puts the work on the stream. If the stream is capturing, puts the work into its graph and
  /// returns no operation.
  std::shared_ptr<Operation> submit(const std::shared_ptr<Stream>&, Work,
                                    std::vector<std::shared_ptr<Operation>> after = {});
  std::shared_ptr<Operation> enqueue(const std::shared_ptr<Stream>&, Work,
                                     std::vector<std::shared_ptr<Operation>> after);
  std::vector<std::shared_ptr<Operation>> predecessors(const Stream&) const;
  void make_room(const std::shared_ptr<Stream>&, const Work&);
  void wait_for(std::shared_ptr<Operation>, const std::string& what);
  [[noreturn]] void deliver_fault();

  // Captures
  bool capturing(const Stream&); ///< refuses a stream with an invalidated capture
  void unsafe_call();            ///< forbidden by a capture in global or thread-local mode
  void refuse_captured(Event&);  ///< refuses an event last recorded in a capture
  Node& add_captured_node(Stream&, Work);
  void join(const std::shared_ptr<Stream>&, const Recording&);
  void wait_in_capture(const std::shared_ptr<Stream>&, const std::shared_ptr<Event>&, bool external);
  std::shared_ptr<Stream> stream_to_capture(CUstream, CUstreamCaptureMode);
  Capture& begin_capture(const std::shared_ptr<Stream>&, CUstreamCaptureMode, std::shared_ptr<Graph> into);
  void add_to_frontier(std::vector<Node*>& frontier, const Graph&, const CUgraphNode*, std::size_t count);
  void discard(Capture&);
  void invalidate_captures_of(const Context&);
  CUresult capture_info(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                        size_t*);

  // Events
  CUresult elapsed(float*, CUevent, CUevent);
  CUresult record(CUevent, CUstream, unsigned flags);
  Work record_work(const std::shared_ptr<Event>&) const;
  static Work wait_work(const Event&);
  static void recorded(Event&, std::shared_ptr<Operation>);
  static void crash_on_foreign_interprocess_event(const Event&, const Context& waiter);
  void wait_while_queue_is_full(const Context&);

  // Memory
  const Allocation* allocation_of(std::uintptr_t address) const;   ///< null if the memory is not allocated
  std::byte* reachable(std::uintptr_t address, std::size_t bytes); ///< refuses unallocated memory
  bool pinned(const void*, std::size_t bytes) const;
  CUresult allocate(std::uintptr_t*, std::size_t bytes, bool host, unsigned flags);
  CUresult deallocate(std::uintptr_t, bool host);
  void end_of_allocation(const Allocation&);
  Work copy_work(void* to, const void* from, std::size_t bytes);
  template <class Value>
  Work fill_work(CUdeviceptr, Value, std::size_t count);
  template <class Value>
  Work write_work(CUdeviceptr, Value, unsigned flags);
  template <class Value>
  Work wait_work(CUdeviceptr, Value, unsigned flags);
  template <class MakeWork>
  CUresult submit_operation(CUstream, MakeWork);
  template <class Value>
  CUresult fill(CUdeviceptr, Value, std::size_t count);
  CUresult submit_and_wait(Work);
  void require_64_bit_operations() const;

  // Launches
  std::shared_ptr<Function> launchable(CUfunction, std::initializer_list<unsigned> grid,
                                       std::initializer_list<unsigned> block);
  void launch(const Function&, const std::shared_ptr<Stream>&);
  CUresult copy(void* to, const void* from, std::size_t bytes, const std::shared_ptr<Stream>&);
  std::byte* device_memory(CUdeviceptr, std::size_t bytes);
  template <class Pointer>
  static Pointer host_memory(Pointer, std::size_t bytes);
  std::byte* any_memory(CUdeviceptr, std::size_t bytes);

  // Graphs
  CUresult add_node(CUgraphNode*, CUgraph, const CUgraphNode* after, std::size_t count, Work);
  CUresult set_node_event(Work&, CUevent);
  static std::vector<Exec::Step> steps_of(const Graph&);
  CUresult set_step_event(Work&, CUevent);
  CUresult get_node_event(CUgraphNode, CUgraphNodeType, CUevent*);
  Work& step_of(CUgraphExec, CUgraphNode, CUgraphNodeType);
  CUresult instantiate(CUgraphExec*, CUgraph, unsigned long long flags);
  void launch(const std::shared_ptr<Exec::Body>&, const std::shared_ptr<Stream>&);
  CUresult list_nodes(const std::vector<Node*>&, CUgraphNode*, size_t*);

  Computer& computer_;
  Computer::Lock& lock_;
  Process& process_;
  bool per_thread_default_;
};

template <class T>
std::shared_ptr<T> Api::make(Kind kind, const Context* where) {
  return computer_.handles.add<T>(kind, process_, history(where));
}

} // namespace cuevent::sim
