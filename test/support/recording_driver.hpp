// SPDX-License-Identifier: MIT
// A driver of recording stubs: it does nothing, but notes each call and the context that was current in it,
// and fails where it is told to. What it notes is kept per thread and without locks, so that the thread
// sanitizer sees the races of cuevent and not those of the stubs.
#pragma once

#include <cuevent/driver.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace test {

/// A write of a value to memory that a stream is to do, or a wait for one.
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
  /// Forgets this thread's calls, context stack and planned failures.
  RecordingDriver();

  /// A driver of the given version, which therefore lacks what later versions brought.
  static cuevent::Driver driver(int version = 13000);
  static CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult* status);

  /// The calls since the last time, as names.
  std::vector<std::string_view> calls();
  /// The same with their contexts.
  std::vector<Call> calls_with_contexts();

  /// The next call of `name` returns `result` and does nothing.
  void fail_next(std::string_view name, CUresult result);
  /// The k-th call from now (1 is the next), whichever it is, returns `result` and does nothing.
  void fail_call(int k, CUresult result);
  /// All calls of `name` return `result` until further notice.
  void fail_always(std::string_view name, CUresult result);
  /// No planned failures any more.
  void fail_nothing();

  /// From now on the handles of contexts stand for new ones, as that of a primary context does after a reset.
  void reset_contexts();
  /// From now on the handles of streams stand for new ones, as those of destroyed streams can.
  void reuse_streams();

  /// The context that cuStreamGetCtx names for every stream, and what cuStreamIsCapturing answers.
  void stream_context(CUcontext context);
  void capture_status(CUstreamCaptureStatus status);

  /// The flags of the last cuEventRecordWithFlags, and of the last cuStreamWaitEvent.
  unsigned record_flags();
  unsigned wait_flags();
  /// How many nodes the record node that was added last comes after.
  std::size_t nodes_before();

  /// The last cuStreamWriteValue and cuStreamWaitValue, which do nothing; and whether devices can do those of
  /// 64 bits, as they can at first.
  MemoryOperation memory_operation();
  void memory_operations_64_bit(bool can);

  /// The nodes that every graph has, as cuGraphGetNodes and cuGraphNodeGetType tell. None at first.
  void graph_nodes(std::vector<CUgraphNodeType> types);
  /// What cuStreamEndCapture fails with once it has ended the capture, as the driver's does.
  void end_capture_result(CUresult result);

  /// Lets go of the user objects that this thread made, as the end of their graphs would.
  void end_user_objects();

  std::vector<CUcontext>& context_stack();
  CUstreamCaptureMode& capture_mode();

  /// Objects made and not destroyed, in the process.
  static long live_events();
  static long live_streams();
  static long live_contexts();
  static long live_graphs();
  static long live_execs();

  /// What was asked of get_proc_address since the last time: "name version".
  static std::vector<std::string> requests();
};

/// Handles that the stubs take for real.
inline CUcontext context_handle(std::uintptr_t n) { return reinterpret_cast<CUcontext>(0xc000 + n); }
inline CUstream stream_handle(std::uintptr_t n) { return reinterpret_cast<CUstream>(0x5000 + n); }
inline CUevent event_handle(std::uintptr_t n) { return reinterpret_cast<CUevent>(0xe000 + n); }
inline CUgraph graph_handle(std::uintptr_t n) { return reinterpret_cast<CUgraph>(0x9000 + n); }
inline CUgraphExec exec_handle(std::uintptr_t n) { return reinterpret_cast<CUgraphExec>(0xa000 + n); }
/// The n-th node, from 0, of every graph.
inline CUgraphNode node_handle(std::uintptr_t n) { return reinterpret_cast<CUgraphNode>(0xb000 + n); }

} // namespace test
