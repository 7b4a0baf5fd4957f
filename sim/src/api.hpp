// SPDX-License-Identifier: MIT
#pragma once

#include "capture.hpp"
#include "code.hpp"
#include "computer.hpp"
#include "event.hpp"
#include "graph.hpp"
#include "stream.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cuevent::sim {

struct Array;
struct BoundMemory;
struct Box;
class Bytes;
struct End;
struct LaunchAttributes;
struct LaunchShape;
struct Link;
struct MipmappedArray;
enum class Memory;

struct GreenContext : Object {
  std::shared_ptr<Context> context;
};

struct ResourceDescription : Object {
  unsigned multiprocessors = 0;
  bool has_rest = false; ///< what a split of the device has left
};

/// One driver call of one process, made under the computer's lock. Has one member for each driver
/// entry, and helpers that the entries share.
class Api {
public:
  Api(Computer& computer, Computer::Lock& lock, Process& process, bool per_thread_default)
      : computer_(computer), lock_(lock), process_(process), per_thread_default_(per_thread_default) {}

#define ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments) CUresult symbol parameters;
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, parameters,          \
                     arguments)                                                                              \
  CUresult symbol parameters;
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY

private:
  void see_devices();

  // Handle lookup
  std::shared_ptr<Context> current_context();
  /// A device accepts a push of a dead context. Creating an object in a dead context is undefined.
  std::shared_ptr<Context> context_to_create_in();
  std::shared_ptr<Context> context(CUcontext); ///< refuses a dead one
  std::shared_ptr<Context> context_even_dead(CUcontext);
  void crash_on_ended_context(CUcontext);
  std::shared_ptr<Stream> stream(CUstream);
  std::shared_ptr<Stream> default_stream(bool per_thread);
  std::shared_ptr<Event> event(CUevent, const char* reason_if_null = nullptr);
  std::shared_ptr<Graph> graph(CUgraph);
  std::shared_ptr<Node> node(CUgraphNode);
  std::shared_ptr<Node> node(CUgraphNode, CUgraphNodeType, const char* reason_if_other = nullptr);
  std::shared_ptr<Node> node_of(const Graph&, CUgraphNode);
  std::shared_ptr<Node> node_or_crash(CUgraphNode);
  bool has_ended(CUgraphNode) const;
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
  ThreadState& thread() const { return computer_.this_thread(process_); }

  // Contexts
  std::shared_ptr<Context> new_context(Context::Type, int device);
  CUresult create_context(CUcontext*, unsigned flags, CUdevice);
  std::shared_ptr<Context> retain_primary(int device);
  void release_primary(Context&);
  void destroy_context(const std::shared_ptr<Context>&);
  void wait_for_the_process(const std::string& before);
  void kill(Context&);
  std::shared_ptr<Stream> new_default_stream(const std::shared_ptr<Context>&, Stream::Type);
  CUresult synchronize_context(const std::shared_ptr<Context>&);
  void append_event_nodes(const Context&, std::vector<std::shared_ptr<Operation>>&) const;
  void append_copies_with_pools(const Context&, std::vector<std::shared_ptr<Operation>>&) const;
  CUresult record_in_context(const std::shared_ptr<Context>&, CUevent);
  CUresult wait_in_context(const std::shared_ptr<Context>&, CUevent);
#if CUDA_VERSION >= 12040
  std::shared_ptr<Context> green(CUgreenCtx);
#endif

  // Streams
  CUresult create_stream(CUstream*, std::shared_ptr<Context>, unsigned flags, int priority);
  static void spoil(CUstream*);
  bool idle(const Stream&) const;
  bool unseen(const Stream&, const Work&) const;
  std::vector<std::shared_ptr<Operation>> tails(const Context&, bool blocking_only) const;
  bool counts_for_record(const Stream& of_default) const;
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
  void wait_for_all_work_of(const Context&, const std::string& before);
  [[noreturn]] void deliver_fault();

  // Captures
  bool capturing(const Stream&); ///< refuses a stream with an invalidated capture
  void
  unsafe_call(const char* reason_if_own = nullptr); ///< forbidden by a capture in global or thread-local mode
  void refuse_in_capture(const Stream&);            ///< for calls that no capture takes: they invalidate it
  enum class Harm { nothing, the_capture };
  /// Refuses an event last recorded in a capture.
  static void refuse_captured(const Event&, Harm = Harm::the_capture);
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
  std::shared_ptr<Recording> recording_of(const OfferedFile&);
  static void begin_record(const Event&, Work&);
  std::shared_ptr<Operation> record_elsewhere(const Event&, std::uint64_t number);
  const std::shared_ptr<Operation>& last_record(const Event&);
  static void recorded(const Event&, std::shared_ptr<Operation>);
  static void recorded_in_capture(const Event&, std::shared_ptr<Capture>, std::vector<Node*> frontier);
  static void crash_on_foreign_interprocess_event(const Event&, const Context& waiter);
  void wait_while_queue_is_full(const Context&);

  // Memory
  std::uintptr_t add(Allocation);
  bool mapped_attribute(void*, CUpointer_attribute, const Allocation&, CUdeviceptr);
  bool pointer_attribute(void*, CUpointer_attribute, const Allocation*, CUdeviceptr);
  const Allocation* allocation_before(std::uintptr_t address) const;
  bool has_bytes(std::uintptr_t address, std::size_t bytes, unsigned access) const;
  const Allocation* allocation_of(std::uintptr_t address) const; ///< null if the memory is not allocated
  const Context* home_of(const void*) const; ///< null for memory of a pool or of the program
  bool pooled(const void*) const;
  /// Refuses memory that is not allocated, or that is mapped for less than this.
  bool may_access(const Allocation& of_host_pool) const;
  std::byte* reachable(std::uintptr_t address, std::size_t bytes,
                       unsigned access = CU_MEM_ACCESS_FLAGS_PROT_READ);
  std::function<bool()> unmapped_later(std::uintptr_t address, std::size_t bytes) const;
  std::function<bool()> released_later(std::uintptr_t address) const; ///< whether its pool has given it back
  std::size_t free_memory(int device) const;
  bool pinned(const void*, std::size_t bytes) const;
  bool green_is_current();
  bool last_freed(std::uintptr_t) const; ///< whether the address is in what cuMemFree got last
  CUresult allocate(std::uintptr_t*, std::size_t bytes, bool host, unsigned flags);
  CUresult deallocate(std::uintptr_t, bool host);
  void end_of_allocation(const Allocation&);
  std::uintptr_t allocation_start(CUdeviceptr) const; ///< 0 if the memory is not allocated
  Allocation* imported(const MemoryIdentity&);
  [[noreturn]] void refuse_to_open(const OfferedFile&, int simulated_process, int error);
  CUresult open_memory(CUdeviceptr*, const CUipcMemHandle&, unsigned flags, bool as_before);
  void remember_memory(Work&, std::uintptr_t address, std::size_t bytes) const;
  CUresult fault_of_ended_memory(const Work&) const;
  Work fill_work(const CUDA_MEMSET_NODE_PARAMS&, bool captured = false);
  enum class Words { in_memory, in_memory_or_null, aligned }; ///< which addresses an operation takes
  template <class Value>
  Value* word(CUdeviceptr, Words, unsigned access);
  template <class Value>
  Work write_work(CUdeviceptr, Value, unsigned flags, Words);
  template <class Value>
  Work wait_work(CUdeviceptr, Value, unsigned flags, Words);
  template <class MakeWork>
  CUresult submit_operation(CUstream, MakeWork);
  Work memory_operation(const CUstreamBatchMemOpParams&, Words);
  std::vector<Work> memory_operations(const CUstreamBatchMemOpParams*, unsigned count, Words);
  Work batch_node_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS*);
  void require_64_bit_operations() const;
  void refuse_other_memory(CUdeviceptr) const;
  [[noreturn]] void refuse_of_cuda_8(CUstream);

  // Launches
  /// Refuses a function of another context than this one, if one is given.
  std::shared_ptr<Function> launchable(CUfunction, const LaunchShape&,
                                       const std::shared_ptr<Context>& in = nullptr);
  static void require_arguments(const Function&, void* const* parameters, void* const* extra);
  LaunchAttributes launch_attributes(const CUlaunchConfig&, const Context& user, bool captured);
  Work kernel_work(const Function&) const;
  void launch(const Function&, const std::shared_ptr<Stream>&);
  void capture_launch(const Function&, const std::shared_ptr<Stream>&, const CUDA_KERNEL_NODE_PARAMS&);
  /// Of the current context, for launches as before CUDA 4.0.
  std::shared_ptr<Function> function_here(CUfunction);
  CUresult set_parameter(CUfunction, int offset);
  CUresult old_launch(CUfunction, int width, int height, CUstream);

  // Code
  void wait_to_load(const Context&);
  static std::string contents(const char* path);
  static CodeImage checked_ptx(std::string_view);
  std::shared_ptr<Code> load(const void* image, const Bytes&);
  CUresult load_module(CUmodule*, const void* image, const Bytes&);
  CUresult load_library(CUlibrary*, const void* image, const Bytes&);
  [[noreturn]] void refuse_link(CUresult& broken);
  CUresult add_to_link(CUlinkState, CUjitInputType, const void*, std::size_t, const char* name);
  void check_input(CUlinkState, unsigned count, const CUjit_option*, void* const* values);
  std::shared_ptr<Module> new_module(std::shared_ptr<Context>, std::shared_ptr<Code>);
  std::shared_ptr<Module> module_of(const std::shared_ptr<Library>&, const std::shared_ptr<Context>&);
  std::shared_ptr<Function> function_of(const std::shared_ptr<Module>&, const std::string& name);
  /// The kernel of a library too: its function in this context, or in the current one.
  std::shared_ptr<Function> callable(CUfunction, const std::shared_ptr<Context>& in = nullptr);
  std::shared_ptr<Function> only_function(CUfunction);
  std::shared_ptr<Library> library(CUlibrary);
  std::shared_ptr<Link> link(CUlinkState);
  std::shared_ptr<LibraryKernel> kernel(CUkernel);
  CUresult variable(CUdeviceptr*, size_t* bytes, const std::shared_ptr<Module>&, const char* name);
  static const KernelCode& code_of(const Code&, const std::string& name);
  static const KernelCode& code_of(const Function& function) {
    return code_of(*function.module->code, function.name);
  }
  static std::array<int, 3> required_cluster(const KernelCode&, const KernelSettings&);
  static int most_dynamic_shared(const KernelCode&, const KernelSettings&);
  static std::array<int, 3> checked_cluster(const Function&, const LaunchShape&,
                                            const std::optional<std::array<int, 3>>& wish);
  struct ClusterLaunch;
  ClusterLaunch cluster_launch(const int* out, CUfunction, const CUlaunchConfig*);
  static int blocks_that_fit(const Function&, int threads, std::size_t dynamic_shared);
  static bool runs_at_once(const Function&, const LaunchShape&);
  static CUresult kernel_attribute(int*, CUfunction_attribute, const Code&, const std::string& name,
                                   const KernelSettings&);
  static CUresult set_kernel_attribute(CUfunction_attribute, int, const KernelCode&, KernelSettings&);
  KernelSettings& settings_of(const LibraryKernel&);
  static CUresult parameter(const Code&, const std::string& name, size_t index, size_t* offset, size_t* size);

  // Copies and fills
  struct CopyStream {
    std::shared_ptr<Stream> stream;
    bool named;                            ///< by the caller. A call without a stream uses the default stream
    std::vector<const Context*> between{}; ///< the contexts that cuMemcpyPeer names for memory of pools
    bool may_return_early = false;         ///< the function was seen to return before its copy was done
  };
  CopyStream copy_stream();
  CopyStream copy_stream(CUstream);
  CUresult fill(const CUDA_MEMSET_NODE_PARAMS&, const CopyStream&);
  Work box_work(const Box&);
  std::shared_ptr<const NodeParameters> captured_parameters(const Box&) const;
  static bool waits(const Box&, const CopyStream&);
  bool returns_early(const Box&, const CopyStream&) const;
  CUresult copy_early(const Box&, Work, const CopyStream&);
  std::vector<const Context*> other_owners(const Box&, const Context& home) const;
  std::vector<const Context*> contexts_between(const Box&, const CopyStream&) const;
  std::vector<std::shared_ptr<Operation>> waits_of_owners(const Box&, const CopyStream&) const;
  std::shared_ptr<Operation> enqueue_between(const std::vector<const Context*>& others, const CopyStream&,
                                             Work, std::vector<std::shared_ptr<Operation>> before);
  CUresult copy(const Box&, const CopyStream&);
  CUresult copy(const CUDA_MEMCPY2D*, const CopyStream&);
  CUresult copy(const CUDA_MEMCPY3D*, const CopyStream&);
  CUresult copy(const CUDA_MEMCPY3D_PEER*, const CopyStream&);
  CUresult copy(const End& to, const End& from, std::size_t bytes, const CopyStream&);
  End end_of_box(const CUDA_MEMCPY3D&, bool source, std::size_t& pitch, std::size_t& layer);
  End array_end(CUarray, std::size_t x, std::size_t y, std::size_t z, const CUDA_MEMCPY3D&,
                std::size_t& pitch, std::size_t& layer);
  CUresult copy_line(CUDA_MEMCPY3D, std::size_t bytes, const CopyStream&);
  CUresult copy_without_memory(const Box&, const CopyStream&);
  Box checked(const CUDA_MEMCPY3D&);
#if CUDA_VERSION >= 12080
  CUresult batch(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes*,
                 size_t* first, size_t attribute_count, size_t* failed, CUstream);
#endif
  Memory kind_of(const void*) const;
  std::optional<Memory> kind_in_host_pool(std::uintptr_t address) const;
  End device_memory(CUdeviceptr, std::size_t bytes);
  End host_memory(const void*, std::size_t bytes) const;
  End any_memory(CUdeviceptr, std::size_t bytes);

  // Managed memory
  enum class Nodes { refused, taken }; ///< whether a place may be a NUMA node
  void check_managed(CUdeviceptr, std::size_t bytes, const CUmemLocation*, Nodes = Nodes::refused);
  void check_place(const CUmemLocation&, Nodes);
  Allocation& managed_memory(CUdeviceptr);
  CUresult advise(CUdeviceptr, std::size_t bytes, CUmem_advise, const CUmemLocation&);
  CUresult prefetch(CUdeviceptr, std::size_t bytes, const CUmemLocation&, CUstream);
  void remember_prefetch(CUdeviceptr, std::size_t bytes, const ShownPlace&);
  static void put_range_attribute(void*, std::size_t size, CUmem_range_attribute,
                                  const std::vector<RangeState>&);
  void check_range(CUdeviceptr, std::size_t bytes);
  struct ManagedBatch;
  CUresult submit(const ManagedBatch&, CUstream);

  // Arrays
  std::shared_ptr<Array> array(CUarray);
  std::shared_ptr<MipmappedArray> mipmapped_array(CUmipmappedArray);
  void refuse_other_kind(const void* handle, Kind) const;
  void refuse_other_kind(CUmemGenericAllocationHandle) const;
  std::shared_ptr<Context> context_for_arrays();
  CUresult create_array(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR&, const std::shared_ptr<Context>&);

  // Textures and surfaces
  void check_resource(const CUDA_RESOURCE_DESC&);
  std::shared_ptr<const Array> viewed(const CUDA_RESOURCE_DESC&);
  void refuse_foreign(const CUDA_RESOURCE_DESC&, const Context& user);
  void check_view(const CUDA_RESOURCE_VIEW_DESC&, const CUDA_RESOURCE_DESC&);
  static unsigned long long bind(std::shared_ptr<const BoundMemory>, Context&);
  const BoundMemory& bound(unsigned long long number, bool surface);
  CUresult unbind(unsigned long long number, bool surface);

  // Virtual memory
  const AddressRange* range_of(std::uintptr_t address) const;
  CUmemAllocationProp accepted(const CUmemAllocationProp&);
  std::shared_ptr<PhysicalMemory> physical(CUmemGenericAllocationHandle);
  void end_if_unused(PhysicalMemory&);
  std::vector<Allocation*> whole_mappings(std::uintptr_t address, std::size_t bytes);

  // Memory pools
  std::shared_ptr<MemoryPool> pool(CUmemoryPool);
  std::shared_ptr<MemoryPool> new_pool(int device);
  std::shared_ptr<MemoryPool> new_pool(const PoolKind&);
  Process::Pools& pools_of(int device);
  Process::Pools& pools_of(const PoolKind&);
  Process::Pools& pools_of(const CUmemLocation*, CUmemAllocationType);
  void set_access(MemoryPool&, const CUmemAccessDesc&);
  void check_access(const MemoryPool&, const CUmemAccessDesc&);
  CUresult allocate_on(CUdeviceptr*, std::size_t bytes, CUmemoryPool, CUstream, bool from_current);

  // Memory that graphs allocate
  std::shared_ptr<GraphMemory> graph_memory_at(std::uintptr_t address) const;
  Work allocation_node_work(const CUDA_MEM_ALLOC_NODE_PARAMS&, Graph&, const Birthplace&);
  Work free_node_work(CUdeviceptr, Graph&);
  void check_place_of_node(const CUmemPoolProps&);
  void check_access_of_node(const CUDA_MEM_ALLOC_NODE_PARAMS&);
  CUdeviceptr capture_allocation(Stream&, std::size_t bytes, const MemoryPool& from);
  void capture_free(Stream&, CUdeviceptr);
  bool has_allocated(const GraphMemory&) const;
  void launch_memory(const Exec&);
  std::unique_ptr<std::byte[]> block_of(MemoryPool&, std::size_t size, const Stream&,
                                        std::vector<std::shared_ptr<Operation>>& after) const;
  std::shared_ptr<MemoryPool> pool_of_graphs(int device);
  MemoryPool& counted_pool_of_graphs(int device);

  // Graphs
  struct Edge {
    Node *before, *after;
  };
  std::vector<Edge> edges_of(const Graph& in, const CUgraphNode* from, const CUgraphNode* to, size_t count);
  CUresult add_node(CUgraphNode*, CUgraph, const CUgraphNode* after, std::size_t count, Work);
  CUresult set_node_event(Work&, CUevent);
  static std::vector<Exec::Step> steps_of(const Graph&);
  static std::vector<Exec::Step> steps_of(const Graph&, const std::vector<const Node*>& order);
  std::shared_ptr<Graph> clone(const Graph&);
  std::shared_ptr<Graph> child(const Graph&);
  void forget(Graph&, const std::string& how);
  void forget_inside(const Node&, const std::string& how);
  Work child_work(CUgraph);
  Work copy_node_work(const CUDA_MEMCPY3D*, CUcontext);
  Work fill_node_work(const CUDA_MEMSET_NODE_PARAMS*, CUcontext);
  Work kernel_node_work(const CUDA_KERNEL_NODE_PARAMS*);
  static std::shared_ptr<const NodeParameters> kept_parameters(const CUDA_KERNEL_NODE_PARAMS&,
                                                               const Function&);
  Exec::Step& step(CUgraphExec, CUgraphNode, const char* reason_if_gone = nullptr);
#if CUDA_VERSION >= 12020
  Work node_work(const CUgraphNodeParams*);
#endif
  CUresult set_step_event(Work&, CUevent);
  CUresult get_node_event(CUgraphNode, CUgraphNodeType, CUevent*);
  Work& step_of(CUgraphExec, CUgraphNode, CUgraphNodeType, const char* reason_if_gone = nullptr);
  using Hindrance = std::pair<CUgraphInstantiateResult, const Node*>;
  Hindrance hindrance_to_instantiation(const Graph&, const std::vector<const Node*>& order,
                                       unsigned long long flags);
  CUresult instantiate(CUgraphExec*, CUgraph, unsigned long long flags,
                       CUDA_GRAPH_INSTANTIATE_PARAMS*); // null: nobody asks why it cannot be
  void refuse_captured_waits(const std::vector<Exec::Step>&, const Stream& legacy);
  void launch(const std::shared_ptr<Exec::Body>&, const std::vector<Exec::Step>&,
              const std::shared_ptr<Stream>&);
  CUresult list_nodes(const std::vector<Node*>&, CUgraphNode*, size_t*);

  // Conditional nodes
  void must_not_be_captured(const Graph&);
  Hindrance hindrance_in_bodies(const Node&) const;
  Hindrance hindrance_in_body(const Graph&, const Conditional&) const;
  bool is_of_other_context(const Work&, const Conditional&) const;
#if CUDA_VERSION >= 12030
  static bool has_reserved_edge(const CUgraphEdgeData*, std::size_t count);
  void must_be_plain(const Graph& in, const CUgraphNode* from, const CUgraphEdgeData* edges,
                     std::size_t count);
  CUresult add_conditional_node(CUgraphNode*, CUgraph, const CUgraphNode* after, std::size_t count,
                                CUgraphNodeParams&);
#endif

  Computer& computer_;
  Computer::Lock& lock_;
  Process& process_;
  bool per_thread_default_;
  bool builds_node_ = false; ///< the call may name memory that a graph will allocate
};

template <class T>
std::shared_ptr<T> Api::make(Kind kind, const Context* where) {
  return computer_.handles.add<T>(kind, process_, history(where));
}

} // namespace cuevent::sim
