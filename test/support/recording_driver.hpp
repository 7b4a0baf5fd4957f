// SPDX-License-Identifier: MIT
// A driver of recording stubs. A stub does nothing except record the call and the current context, and it
// fails if a test says so. Records are per thread and without locks, so that the thread sanitizer sees the
// races of cuevent and none of the stubs.
#pragma once

#include <cuevent/driver.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace test {

/// A memory write of a stream, or a wait for a value in memory.
struct MemoryOperation {
  CUstream stream = nullptr;
  CUdeviceptr address = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;
};

struct Call {
  std::string_view name;
  CUcontext current;
  friend bool operator==(const Call&, const Call&) = default;
};

class RecordingDriver {
public:
  /// Clears this thread's calls, context stack and planned failures.
  RecordingDriver();

  /// A driver of the given version. It lacks the functions of later versions.
  static cuevent::Driver driver(int version = 13000);
  static CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult* status);

  /// The names of the calls since the last time.
  std::vector<std::string_view> calls();
  /// The calls since the last time, with their contexts.
  std::vector<Call> calls_with_contexts();

  /// The next call of `name` returns `result` and does nothing.
  void fail_next(std::string_view name, CUresult result);
  /// The k-th call from now returns `result` and does nothing. 1 is the next call.
  void fail_call(int k, CUresult result);
  /// All calls of `name` return `result` until this is changed.
  void fail_always(std::string_view name, CUresult result);
  /// Removes all planned failures.
  void fail_nothing();

  /// Logs a line on this thread, for one of two callbacks. False if nobody has registered a callback.
  static bool log(std::string line, unsigned level = 0, int callback = 0);

  /// From now on, the handles of contexts name new contexts, as after a reset of a primary context.
  void reset_contexts();
  /// From now on, the handles of streams name new streams, as when a handle is reused.
  void reuse_streams();

  /// The context that cuStreamGetCtx returns for every stream, and the status that
  /// cuStreamIsCapturing returns.
  void stream_context(CUcontext context);
  void capture_status(CUstreamCaptureStatus status);

  /// The id of every capture. Initially 1.
  void capture_id(unsigned id);
  /// The frontier of every captured stream: one node initially. No edges means that they are plain.
  void frontier(std::vector<CUgraphNode> nodes, std::vector<CUgraphEdgeData> edges = {});
  const std::vector<CUgraphNode>& frontier();
  const std::vector<CUgraphEdgeData>& frontier_edges();

  /// The flags of the last cuEventRecordWithFlags and of the last cuStreamWaitEvent.
  unsigned record_flags();
  unsigned wait_flags();
  /// The flags of the last cuMemHostAlloc or cuMemHostRegister.
  unsigned host_memory_flags();
  /// The number of nodes before the record node that was added last.
  std::size_t nodes_before();

  /// The last cuStreamWriteValue or cuStreamWaitValue, which do nothing; and whether devices support
  /// 64 bits in them. Initially they do.
  MemoryOperation memory_operation();
  void memory_operations_64_bit(bool can);

  /// The nodes of every graph, as cuGraphGetNodes and cuGraphNodeGetType return them. Initially none.
  void graph_nodes(std::vector<CUgraphNodeType> types);
  /// The error that cuStreamEndCapture returns after it has ended the capture, like the driver.
  void end_capture_result(CUresult result);

  /// Releases the user objects that this thread made, as the end of their graphs would.
  void end_user_objects();

  std::vector<CUcontext>& context_stack();
  CUstreamCaptureMode& capture_mode();

  /// The number of objects in the process that were made and not destroyed.
  static long live_events();
  static long live_streams();
  static long live_contexts();
  static long live_graphs();
  static long live_execs();

  /// The requests to get_proc_address since the last time: "name version".
  static std::vector<std::string> requests();
};

/// Handles that the stubs accept.
inline CUcontext context_handle(std::uintptr_t n) { return reinterpret_cast<CUcontext>(0xc000 + n); }
inline CUstream stream_handle(std::uintptr_t n) { return reinterpret_cast<CUstream>(0x5000 + n); }
inline CUevent event_handle(std::uintptr_t n) { return reinterpret_cast<CUevent>(0xe000 + n); }
inline CUgraph graph_handle(std::uintptr_t n) { return reinterpret_cast<CUgraph>(0x9000 + n); }
inline CUgraphExec exec_handle(std::uintptr_t n) { return reinterpret_cast<CUgraphExec>(0xa000 + n); }
/// The n-th node of every graph, counted from 0.
inline CUgraphNode node_handle(std::uintptr_t n) { return reinterpret_cast<CUgraphNode>(0xb000 + n); }

} // namespace test
