// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The control header of the simulated CUDA driver: everything a test can do that a device cannot.
///
/// The driver itself is reached as every driver is, through a `cuGetProcAddress`:
///
///     cuevent::sim::Machine machine({.devices = 2});
///     cuevent::Driver driver(cuevent::sim::get_proc_address);
///
/// Thread-safety: every function here may be called from any thread, except that a Machine is made, and
/// `reset` called, while no thread is inside a driver call. No function here may be called from a host
/// function.

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cuevent::sim {

using Nanoseconds = std::chrono::nanoseconds;

/// What makes time pass.
enum class Mode {
  stepped, ///< Nothing moves but inside driver calls and control calls, on a virtual clock; deterministic.
  running, ///< A thread moves the work on wall time, as a device does.
};

/// The newest driver it can be: that of CUDA 13.0, or of the headers that it is compiled with.
inline constexpr int newest_driver_version = std::min(CUDA_VERSION, 13000);

struct Options {
  Mode mode = Mode::stepped;
  int devices = 1;                            ///< 1 or 2
  int driver_version = newest_driver_version; ///< from 12000 on; entries newer than this are not found
  /// Operations that may run in any order run in an order drawn from this seed; empty: in order of
  /// submission.
  std::optional<std::uint64_t> random_order{};
  /// A waiting call that sees no progress for so long prints the wait-for graph and aborts. Zero: at once.
  std::chrono::milliseconds patience{30'000};
  /// The places in a stream's launch queue. A submission that finds no place blocks its thread. A
  /// kernel, a copy, a memory operation, a timed record and a graph launch take one; untimed
  /// records, waits for events and host functions none; a launch of a graph that keeps user
  /// objects, and a record with blocking_sync, take 18.
  std::size_t queue_limit = 1020;
  bool memory_operations_64_bit = true; ///< false: as a device without 64-bit stream memory operations.
};

/// Starts a new session: no handle, context, fault or setting of the one before remains, and none of its
/// handles will ever name anything again. Virtual time starts at zero.
void reset(const Options& = {});

/// A session for a scope: starts one when made, starts a default one when destroyed.
class [[nodiscard]] Machine {
public:
  explicit Machine(const Options& options = {}) { reset(options); }
  ~Machine() { reset(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
};

/// The type of cuGetProcAddress since CUDA 12.0.
using GetProcAddress = CUresult(CUDAAPI*)(const char* symbol, void** function, int version, cuuint64_t flags,
                                          CUdriverProcAddressQueryResult* status);

/// The driver, as simulated process 0 sees it. Beside the driver's functions it answers, in stepped mode, the
/// two names that cuevent's timed waits look for: `cueventClockNow`, `long long()`, the virtual time in ns,
/// and `cueventPause`, `void(long long ns)`, which advances it.
CUresult CUDAAPI get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status);

/// The driver as simulated process 0 or 1 sees it: same devices, separate contexts, handles and faults.
/// Events cross between them by cuIpcGetEventHandle and cuIpcOpenEventHandle.
GetProcAddress get_proc_address_of(int process);

// Time. In running mode `now` is wall time since the session began, and the other three only look after what
// is due.

Nanoseconds now();
/// Lets so much virtual time pass: all work that is due by then runs.
void advance(Nanoseconds);
/// Goes on to the next completion of one operation, wherever it is. False: nothing would end by itself.
bool step();
/// Runs until nothing would end by itself.
void run_until_idle();

// Streams

/// Nothing of this stream starts until it is released. What already runs, runs on.
void hold(CUstream);
void release(CUstream);
/// The same for a default stream: CU_STREAM_LEGACY, or CU_STREAM_PER_THREAD for that of the calling thread.
void hold(CUstream, CUcontext);
void release(CUstream, CUcontext);
/// Operations submitted to this stream that did not complete yet.
std::size_t pending(CUstream);

// Kernels are opaque delays.

struct Kernel {
  /// How long it runs; `endless` until end_kernels() names it.
  Nanoseconds duration{10'000};
  /// Not success: the kernel ends with this fault, which is then the sticky error of its process.
  CUresult fault = CUDA_SUCCESS;
};
inline constexpr Nanoseconds endless = Nanoseconds::max();

/// What a kernel of this name does from its next launch on; the empty name stands for all that have no entry.
void set_kernel(std::string_view name, Kernel);
/// Ends the running endless kernels of this name.
void end_kernels(std::string_view name);

// Faults

/// The process of this context has the sticky fault `result` from now on, as after a kernel wrote to an
/// illegal address: its pending work never completes. Until a call has delivered the fault, or 100 ms have
/// passed, events that completed before it still answer success; afterwards every call on streams or events
/// returns it.
void make_context_fault(CUcontext, CUresult result);
/// The driver of this process has begun to unload: every call returns CUDA_ERROR_DEINITIALIZED.
void shut_down(int process = 0);

/// This process ends: its contexts and handles are gone, and what the other opened of its events outlives it.
/// It may call cuInit again, as another process.
void end_process(int process);

// What there is

struct HandleCounts {
  std::size_t contexts = 0; ///< created ones, green ones, and primary contexts that are active
  std::size_t streams = 0;  ///< created ones
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t graph_execs = 0;
  std::size_t user_objects = 0;
  std::size_t modules = 0;
  std::size_t allocations = 0; ///< device and host memory
  friend constexpr bool operator==(const HandleCounts& a, const HandleCounts& b) noexcept {
    return a.contexts == b.contexts && a.streams == b.streams && a.events == b.events &&
           a.graphs == b.graphs && a.graph_execs == b.graph_execs && a.user_objects == b.user_objects &&
           a.modules == b.modules && a.allocations == b.allocations;
  }
  friend constexpr bool operator!=(const HandleCounts& a, const HandleCounts& b) noexcept {
    return !(a == b);
  }
};
HandleCounts live_handles(int process = 0);

/// The contexts pushed on the calling thread, the current one last.
std::vector<CUcontext> context_stack(int process = 0);

/// Driver calls made in this session, the refused ones included. Those that work before cuInit are not
/// counted.
unsigned long long calls(int process = 0);

} // namespace cuevent::sim
