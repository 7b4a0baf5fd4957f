// SPDX-License-Identifier: MIT
#include "recording_driver.hpp"

#include "allocations.hpp"
#include "fork_locks.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <utility>

namespace test {

namespace {

struct Thread {
  std::vector<Call> calls;
  std::vector<CUcontext> stack;
  std::map<std::string_view, CUresult> fail_once;
  std::map<std::string_view, CUresult> fail_always;
  int failing_call = 0; // counts down; the call at which it goes from 1 to 0 fails
  CUresult failing_call_result = CUDA_SUCCESS;
  CUcontext stream_context = context_handle(1);
  unsigned long long reset_contexts = 0, reused_streams = 0;
  CUstreamCaptureStatus capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUresult end_capture_result = CUDA_SUCCESS;
  unsigned record_flags = ~0U, wait_flags = ~0U, host_memory_flags = ~0U;
  std::size_t nodes_before = 0;
  MemoryOperation memory_operation;
  bool memory_operations_64_bit = true;
  cuuint64_t capture_id = 1;
  CUgraph capture_into = nullptr;
  std::vector<CUgraphNode> frontier{node_handle(0x100)};
  std::vector<CUgraphEdgeData> frontier_edges;
  std::vector<CUgraphNodeType> graph_nodes;
  std::map<CUgraphNode, CUevent> node_events;
  struct UserObject {
    CUhostFn destroy;
    void* pointer;
  };
  std::map<CUuserObject, UserObject> user_objects;
};
thread_local Thread here;
// The library unregisters its log in an exit handler, which runs after the end of the main thread's objects.
thread_local bool thread_ended = false;
thread_local struct ThreadEnd {
  ~ThreadEnd() { thread_ended = true; }
} thread_end;

std::atomic<int> offered_version{13000};
std::atomic<long> events{0}, streams{0}, contexts{0}, graphs{0}, execs{0};
std::atomic<std::uintptr_t> next_handle{1};
thread_local std::vector<std::string> requested;
std::atomic<CUlogsCallback> log_callback{nullptr}; // of all versions

CUresult planned(std::string_view name) {
  if (here.failing_call > 0 && --here.failing_call == 0) return here.failing_call_result;
  if (const auto once = here.fail_once.find(name); once != here.fail_once.end()) {
    const CUresult result = once->second;
    here.fail_once.erase(once);
    return result;
  }
  const auto always = here.fail_always.find(name);
  return always != here.fail_always.end() ? always->second : CUDA_SUCCESS;
}

// A tag for each row. It selects the overload that defines what a stub does in addition to
// recording the call.
#define CUEVENT_REQUIRED(name, version)                                                                      \
  struct name##_v##version##_tag {};
#include <cuevent/driver_symbols.inc>

template <class Tag, class... Arguments>
CUresult act(Tag, Arguments...) {
  return CUDA_SUCCESS;
}

template <class Handle>
Handle make_handle() {
  return reinterpret_cast<Handle>(0x10000 + 16 * next_handle++);
}

CUresult act(cuDriverGetVersion_v2020_tag, int* version) { return *version = offered_version, CUDA_SUCCESS; }
CUresult act(cuLogsRegisterCallback_v12090_tag, CUlogsCallback function, void*,
             CUlogsCallbackHandle* handle) {
  log_callback = function;
  return *handle = make_handle<CUlogsCallbackHandle>(), CUDA_SUCCESS;
}
CUresult act(cuLogsUnregisterCallback_v12090_tag, CUlogsCallbackHandle) {
  return log_callback = nullptr, CUDA_SUCCESS;
}
CUresult act(cuDeviceGet_v2000_tag, CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
CUresult act(cuDeviceGetCount_v2000_tag, int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult act(cuDevicePrimaryCtxRetain_v7000_tag, CUcontext* context, CUdevice device) {
  ++contexts;
  return *context = context_handle(0x100 + static_cast<std::uintptr_t>(device)), CUDA_SUCCESS;
}
CUresult act(cuDevicePrimaryCtxRelease_v11000_tag, CUdevice) { return --contexts, CUDA_SUCCESS; }
CUresult act(cuCtxCreate_v3020_tag, CUcontext* context, unsigned, CUdevice) {
  ++contexts;
  here.stack.push_back(*context = make_handle<CUcontext>());
  return CUDA_SUCCESS;
}
CUresult act(cuCtxDestroy_v4000_tag, CUcontext) { return --contexts, CUDA_SUCCESS; }
CUresult act(cuCtxPushCurrent_v4000_tag, CUcontext context) {
  return here.stack.push_back(context), CUDA_SUCCESS;
}
CUresult act(cuCtxPopCurrent_v4000_tag, CUcontext* context) {
  if (here.stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = here.stack.back();
  here.stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult act(cuCtxGetCurrent_v4000_tag, CUcontext* context) {
  return *context = here.stack.empty() ? nullptr : here.stack.back(), CUDA_SUCCESS;
}
CUresult act(cuCtxGetDevice_v2000_tag, CUdevice* device) {
  if (here.stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const auto handle = reinterpret_cast<std::uintptr_t>(here.stack.back());
  const auto primary = reinterpret_cast<std::uintptr_t>(context_handle(0x100)); // of device 0
  const bool is_primary = handle >= primary && handle < primary + 0x100;
  *device = is_primary                               ? static_cast<CUdevice>(handle - primary)
            : here.stack.back() == context_handle(2) ? 1
                                                     : 0;
  return CUDA_SUCCESS;
}
CUresult act(cuCtxGetId_v12000_tag, CUcontext context, unsigned long long* id) {
  if (context == nullptr && here.stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context == nullptr) context = here.stack.back();
  const auto handle = reinterpret_cast<std::uintptr_t>(context);
  return *id = handle + 1 + (here.reset_contexts << 40), CUDA_SUCCESS; // an id is never a handle
}
CUresult act(cuEventCreate_v2000_tag, CUevent* event, unsigned) {
  ++events;
  return *event = make_handle<CUevent>(), CUDA_SUCCESS;
}
CUresult act(cuEventDestroy_v4000_tag, CUevent) { return --events, CUDA_SUCCESS; }
CUresult act(cuIpcGetEventHandle_v4010_tag, CUipcEventHandle* handle, CUevent) {
  for (int i = 0; i < CU_IPC_HANDLE_SIZE; ++i)
    handle->reserved[i] = static_cast<char>(i * 5);
  return CUDA_SUCCESS;
}
CUresult act(cuIpcOpenEventHandle_v4010_tag, CUevent* event, CUipcEventHandle) {
  ++events;
  return *event = make_handle<CUevent>(), CUDA_SUCCESS;
}
CUresult act(cuEventRecordWithFlags_v11010_tag, CUevent, CUstream, unsigned flags) {
  return here.record_flags = flags, CUDA_SUCCESS;
}
CUresult act(cuStreamWaitEvent_v3020_tag, CUstream, CUevent, unsigned flags) {
  return here.wait_flags = flags, CUDA_SUCCESS;
}
CUresult act(cuEventElapsedTime_v2000_tag, float* time, CUevent, CUevent) {
  return *time = 1.5F, CUDA_SUCCESS;
}
CUresult act(cuEventElapsedTime_v12080_tag, float* time, CUevent, CUevent) {
  return *time = 2.5F, CUDA_SUCCESS;
}
CUresult act(cuStreamGetCtx_v9020_tag, CUstream, CUcontext* context) {
  return *context = here.stream_context, CUDA_SUCCESS;
}
CUresult act(cuStreamGetId_v12000_tag, CUstream stream, unsigned long long* id) {
  // The per-thread stream is a different stream on each thread.
  constexpr std::uintptr_t offset = 64; // no id is 0
  *id = stream == CU_STREAM_PER_THREAD
            ? reinterpret_cast<std::uintptr_t>(&here)
            : reinterpret_cast<std::uintptr_t>(stream) + here.reused_streams + offset;
  return CUDA_SUCCESS;
}
CUresult act(cuStreamCreate_v2000_tag, CUstream* stream, unsigned) {
  ++streams;
  return *stream = make_handle<CUstream>(), CUDA_SUCCESS;
}
CUresult act(cuStreamDestroy_v4000_tag, CUstream) { return --streams, CUDA_SUCCESS; }
CUresult act(cuStreamGetCaptureInfo_v11030_tag, CUstream, CUstreamCaptureStatus* status, cuuint64_t* id,
             CUgraph* graph, const CUgraphNode** last, std::size_t* count) {
  *status = here.capture_status;
  if (id != nullptr) *id = here.capture_id;
  if (graph != nullptr) *graph = make_handle<CUgraph>();
  if (last != nullptr) *last = here.frontier.data();
  if (count != nullptr) *count = here.frontier.size();
  return CUDA_SUCCESS;
}
CUresult act(cuStreamGetCaptureInfo_v12030_tag, CUstream stream, CUstreamCaptureStatus* status,
             cuuint64_t* id, CUgraph* graph, const CUgraphNode** last, const CUgraphEdgeData** edges,
             std::size_t* count) {
  *edges = here.frontier_edges.empty() ? nullptr : here.frontier_edges.data();
  return act(cuStreamGetCaptureInfo_v11030_tag(), stream, status, id, graph, last, count);
}
CUresult act(cuStreamUpdateCaptureDependencies_v12030_tag, CUstream, CUgraphNode* nodes,
             const CUgraphEdgeData* edges, std::size_t count, unsigned flags) {
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    here.frontier.clear();
    here.frontier_edges.clear();
  }
  here.frontier_edges.resize(here.frontier.size());
  here.frontier.insert(here.frontier.end(), nodes, nodes + count);
  if (edges != nullptr) here.frontier_edges.insert(here.frontier_edges.end(), edges, edges + count);
  here.frontier_edges.resize(here.frontier.size());
  return CUDA_SUCCESS;
}
CUresult act(cuStreamUpdateCaptureDependencies_v11030_tag, CUstream stream, CUgraphNode* nodes,
             std::size_t count, unsigned flags) {
  const CUgraphEdgeData* const edges = nullptr;
  return act(cuStreamUpdateCaptureDependencies_v12030_tag(), stream, nodes, edges, count, flags);
}
CUresult act(cuStreamIsCapturing_v10000_tag, CUstream, CUstreamCaptureStatus* status) {
  return *status = here.capture_status, CUDA_SUCCESS;
}
CUresult act(cuThreadExchangeStreamCaptureMode_v10010_tag, CUstreamCaptureMode* mode) {
  return std::swap(*mode, here.capture_mode), CUDA_SUCCESS;
}

CUresult act(cuDeviceGetAttribute_v2000_tag, int* value, CUdevice_attribute, CUdevice) {
  return *value = here.memory_operations_64_bit, CUDA_SUCCESS;
}
/// Pinned memory. It lives forever, because cuevent keeps its memory.
struct Pinned {
  void* memory;
  Pinned* next;
};
std::atomic<Pinned*> pinned{nullptr};
CUresult act(cuMemHostAlloc_v2020_tag, void** memory, std::size_t bytes, unsigned flags) {
  here.host_memory_flags = flags;
  *memory = std::memset(::operator new (bytes, std::align_val_t{4096}), 0xa5, bytes);
  auto* const kept = new Pinned{*memory, pinned};
  while (!pinned.compare_exchange_weak(kept->next, kept)) {
  }
  return CUDA_SUCCESS;
}
CUresult act(cuMemHostRegister_v6050_tag, void*, std::size_t, unsigned flags) {
  return here.host_memory_flags = flags, CUDA_SUCCESS;
}
CUresult act(cuMemHostGetDevicePointer_v3020_tag, CUdeviceptr* device, void* host, unsigned) {
  return *device = reinterpret_cast<std::uintptr_t>(host), CUDA_SUCCESS;
}
CUresult note(CUstream stream, CUdeviceptr address, std::uint64_t value, unsigned flags) {
  here.memory_operation = {stream, address, value, flags};
  return CUDA_SUCCESS;
}
CUresult act(cuStreamWriteValue64_v11070_tag, CUstream stream, CUdeviceptr to, cuuint64_t value,
             unsigned flags) {
  return note(stream, to, value, flags);
}
CUresult act(cuStreamWriteValue32_v11070_tag, CUstream stream, CUdeviceptr to, cuuint32_t value,
             unsigned flags) {
  return note(stream, to, value, flags);
}
CUresult act(cuStreamWaitValue64_v11070_tag, CUstream stream, CUdeviceptr at, cuuint64_t value,
             unsigned flags) {
  return note(stream, at, value, flags);
}
CUresult act(cuStreamWaitValue32_v11070_tag, CUstream stream, CUdeviceptr at, cuuint32_t value,
             unsigned flags) {
  return note(stream, at, value, flags);
}

CUresult act(cuStreamBeginCaptureToGraph_v12030_tag, CUstream, CUgraph graph, const CUgraphNode* after,
             const CUgraphEdgeData*, std::size_t count, CUstreamCaptureMode) {
  here.capture_into = graph;
  return here.frontier.assign(after, after + count), CUDA_SUCCESS;
}
CUresult act(cuStreamEndCapture_v10000_tag, CUstream, CUgraph* graph) {
  CUgraph const into = std::exchange(here.capture_into, nullptr);
  if (here.end_capture_result != CUDA_SUCCESS)
    return *graph = nullptr, std::exchange(here.end_capture_result, CUDA_SUCCESS);
  if (into != nullptr) return *graph = into, CUDA_SUCCESS;
  ++graphs;
  return *graph = make_handle<CUgraph>(), CUDA_SUCCESS;
}
CUresult act(cuGraphCreate_v10000_tag, CUgraph* graph, unsigned) {
  ++graphs;
  return *graph = make_handle<CUgraph>(), CUDA_SUCCESS;
}
CUresult act(cuGraphDestroy_v10000_tag, CUgraph) { return --graphs, CUDA_SUCCESS; }
CUresult act(cuGraphInstantiateWithFlags_v11040_tag, CUgraphExec* exec, CUgraph, unsigned long long) {
  ++execs;
  return *exec = make_handle<CUgraphExec>(), CUDA_SUCCESS;
}
CUresult act(cuGraphExecDestroy_v10000_tag, CUgraphExec) { return --execs, CUDA_SUCCESS; }
CUresult act(cuGraphGetNodes_v10000_tag, CUgraph, CUgraphNode* nodes, std::size_t* count) {
  *count = here.graph_nodes.size();
  for (std::size_t i = 0; nodes != nullptr && i < *count; ++i)
    nodes[i] = node_handle(i);
  return CUDA_SUCCESS;
}
CUresult act(cuGraphNodeGetType_v10000_tag, CUgraphNode node, CUgraphNodeType* type) {
  const auto index =
      reinterpret_cast<std::uintptr_t>(node) - reinterpret_cast<std::uintptr_t>(node_handle(0));
  return *type = here.graph_nodes.at(index), CUDA_SUCCESS;
}

CUresult add_event_node(CUgraphNode* node, CUevent event) {
  here.node_events[*node = make_handle<CUgraphNode>()] = event;
  return CUDA_SUCCESS;
}
CUresult act(cuGraphAddEventRecordNode_v11010_tag, CUgraphNode* node, CUgraph, const CUgraphNode*,
             std::size_t nodes_before, CUevent event) {
  here.nodes_before = nodes_before;
  return add_event_node(node, event);
}
CUresult act(cuGraphAddEventWaitNode_v11010_tag, CUgraphNode* node, CUgraph, const CUgraphNode*,
             std::size_t nodes_before, CUevent event) {
  here.nodes_before = nodes_before;
  return add_event_node(node, event);
}
CUresult act(cuGraphEventRecordNodeGetEvent_v11010_tag, CUgraphNode node, CUevent* event) {
  return *event = here.node_events[node], CUDA_SUCCESS;
}
CUresult act(cuGraphEventWaitNodeGetEvent_v11010_tag, CUgraphNode node, CUevent* event) {
  return *event = here.node_events[node], CUDA_SUCCESS;
}
CUresult act(cuGraphEventRecordNodeSetEvent_v11010_tag, CUgraphNode node, CUevent event) {
  return here.node_events[node] = event, CUDA_SUCCESS;
}
CUresult act(cuGraphEventWaitNodeSetEvent_v11010_tag, CUgraphNode node, CUevent event) {
  return here.node_events[node] = event, CUDA_SUCCESS;
}

CUresult act(cuUserObjectCreate_v11030_tag, CUuserObject* object, void* pointer, CUhostFn destroy, unsigned,
             unsigned) {
  *object = make_handle<CUuserObject>();
  return here.user_objects[*object] = {destroy, pointer}, CUDA_SUCCESS;
}
CUresult act(cuUserObjectRelease_v11030_tag, CUuserObject object, unsigned) {
  const auto ended = here.user_objects.extract(object);
  return ended.mapped().destroy(ended.mapped().pointer), CUDA_SUCCESS;
}

template <class Tag, class Function>
struct Stub;
template <class Tag, class... Arguments>
struct Stub<Tag, CUresult (*)(Arguments...)> {
  static inline std::string_view name;
  static CUresult call(Arguments... arguments) {
    if (thread_ended) return CUDA_SUCCESS;
    const SafeAllocations own;
    expect_no_fork_lock(name);
    here.calls.push_back({name, here.stack.empty() ? nullptr : here.stack.back()});
    const CUresult result = planned(name);
    return result == CUDA_SUCCESS ? act(Tag{}, arguments...) : result;
  }
};

struct Entry {
  std::string_view name;
  int version;
  void* stub;
};

template <class Tag, class Function>
Entry entry(std::string_view name, int version) {
  Stub<Tag, Function>::name = name;
  return {name, version, reinterpret_cast<void*>(Stub<Tag, Function>::call)};
}

const Entry entries[] = {
#define CUEVENT_REQUIRED(name, version)                                                                      \
  entry<name##_v##version##_tag, PFN_##name##_v##version>(#name, version),
#include <cuevent/driver_symbols.inc>
};

} // namespace

RecordingDriver::RecordingDriver() {
  here = Thread();
  requested.clear();
}

cuevent::Driver RecordingDriver::driver(int version) {
  offered_version = version;
  const cuevent::Driver driver(get_proc_address);
  here.calls.clear();
  return driver;
}

CUresult RecordingDriver::get_proc_address(const char* name, void** function, int version, cuuint64_t,
                                           CUdriverProcAddressQueryResult* status) {
  requested.push_back(std::string(name) + " " + std::to_string(version));
  *function = nullptr;
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (version > offered_version) return CUDA_ERROR_INVALID_VALUE;
  for (const Entry& entry : entries) {
    if (entry.name != name || entry.version > offered_version) continue;
    if (entry.version <= version) *function = entry.stub;
    *status = *function == nullptr ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return planned("cuGetProcAddress");
}

std::vector<Call> RecordingDriver::calls_with_contexts() { return std::exchange(here.calls, {}); }

std::vector<std::string_view> RecordingDriver::calls() {
  std::vector<std::string_view> names;
  for (const Call& call : calls_with_contexts())
    names.push_back(call.name);
  return names;
}

void RecordingDriver::fail_next(std::string_view name, CUresult result) { here.fail_once[name] = result; }
void RecordingDriver::fail_always(std::string_view name, CUresult result) { here.fail_always[name] = result; }
void RecordingDriver::fail_call(int k, CUresult result) {
  here.failing_call = k;
  here.failing_call_result = result;
}
void RecordingDriver::fail_nothing() {
  here.fail_once.clear();
  here.fail_always.clear();
  here.failing_call = 0;
}

bool RecordingDriver::log(std::string line, unsigned level, int callback) {
  static int callbacks[2];
  const CUlogsCallback function = log_callback;
  if (function != nullptr)
    function(&callbacks[callback], static_cast<CUlogLevel>(level), line.data(), line.size());
  return function != nullptr;
}
void RecordingDriver::reset_contexts() { ++here.reset_contexts; }
void RecordingDriver::reuse_streams() { ++here.reused_streams; }
void RecordingDriver::stream_context(CUcontext context) { here.stream_context = context; }
void RecordingDriver::capture_status(CUstreamCaptureStatus status) { here.capture_status = status; }
void RecordingDriver::capture_id(unsigned id) { here.capture_id = id; }
void RecordingDriver::frontier(std::vector<CUgraphNode> nodes, std::vector<CUgraphEdgeData> edges) {
  here.frontier = std::move(nodes);
  here.frontier_edges = std::move(edges);
}
const std::vector<CUgraphNode>& RecordingDriver::frontier() { return here.frontier; }
const std::vector<CUgraphEdgeData>& RecordingDriver::frontier_edges() { return here.frontier_edges; }
MemoryOperation RecordingDriver::memory_operation() { return here.memory_operation; }
void RecordingDriver::memory_operations_64_bit(bool can) { here.memory_operations_64_bit = can; }
unsigned RecordingDriver::record_flags() { return here.record_flags; }
std::size_t RecordingDriver::nodes_before() { return here.nodes_before; }
unsigned RecordingDriver::wait_flags() { return here.wait_flags; }
unsigned RecordingDriver::host_memory_flags() { return here.host_memory_flags; }
void RecordingDriver::graph_nodes(std::vector<CUgraphNodeType> types) { here.graph_nodes = std::move(types); }
void RecordingDriver::end_capture_result(CUresult result) { here.end_capture_result = result; }
void RecordingDriver::end_user_objects() {
  for (const auto& [object, ended] : std::exchange(here.user_objects, {}))
    ended.destroy(ended.pointer);
}
std::vector<CUcontext>& RecordingDriver::context_stack() { return here.stack; }
CUstreamCaptureMode& RecordingDriver::capture_mode() { return here.capture_mode; }
long RecordingDriver::live_events() { return events; }
long RecordingDriver::live_streams() { return streams; }
long RecordingDriver::live_contexts() { return contexts; }
long RecordingDriver::live_graphs() { return graphs; }
long RecordingDriver::live_execs() { return execs; }
std::vector<std::string> RecordingDriver::requests() { return std::exchange(requested, {}); }

} // namespace test
