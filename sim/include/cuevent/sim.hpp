// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The control header of the simulated CUDA driver: everything that a test can do but a device cannot.
///
/// A program reaches the driver like any other driver, through `cuGetProcAddress`:
///
///     cuevent::sim::Machine machine({.devices = 2});
///     cuevent::Driver driver(cuevent::sim::get_proc_address);
///
/// Thread-safety: any thread may call any function of this header, with two exceptions:
/// - No thread may be inside a driver call while a Machine is made or destroyed, or `reset` is called.
/// - A host function must not call them.

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

/// How time passes.
enum class Mode {
  stepped, ///< Virtual clock: work proceeds only inside driver calls and control calls. Deterministic.
  running, ///< Wall time: a thread moves the work forward, as a device does.
};

/// The newest simulated driver: CUDA 13.0, or the version of the headers in use if those are older.
inline constexpr int newest_driver_version = std::min(CUDA_VERSION, 13000);

struct Options {
  Mode mode = Mode::stepped;
  int devices = 1;                            ///< 1 or 2
  int driver_version = newest_driver_version; ///< from 12000 on; entries that are newer are not found
  /// Operations that may run in any order run in a random order with this seed. Empty: in the order of
  /// submission.
  std::optional<std::uint64_t> random_order{};
  /// A waiting call that sees no progress for this time prints the wait-for graph and aborts. Zero:
  /// immediately.
  std::chrono::milliseconds patience{30'000};
  /// The places in a stream's launch queue. A submission that finds no place blocks its thread.
  /// - One place: a kernel, a copy, a memory operation, a timed record, a graph launch.
  /// - No place: an untimed record, a wait for an event, a host function.
  /// - 18 places: the launch of a graph that keeps user objects, a record with blocking_sync.
  std::size_t queue_limit = 1020;
  bool memory_operations_64_bit = true; ///< false: like a device without 64-bit stream memory operations
};

/// Starts a new session. Handles, contexts, faults and settings of the previous session are gone, and its
/// handles never become valid again. Virtual time starts at zero.
void reset(const Options& = {});

/// A session for a scope. The constructor starts a session, the destructor starts a default one.
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

/// The driver as simulated process 0 sees it. In stepped mode it also finds the two names that cuevent's
/// timed waits look for:
/// - `cueventClockNow`, type `long long()`: the virtual time in ns.
/// - `cueventPause`, type `void(long long ns)`: advances the virtual time.
CUresult CUDAAPI get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status);

/// The driver as simulated process 0 or 1 sees it. The processes share the devices, but each has its own
/// contexts, handles and faults. cuIpcGetEventHandle and cuIpcOpenEventHandle pass events between them.
GetProcAddress get_proc_address_of(int process);

// Time. In running mode, `now` is the wall time since the session began, and the other three functions only
// run what is due.

Nanoseconds now();
/// Advances virtual time by this much, and runs all work that is due by then.
void advance(Nanoseconds);
/// Runs until the next operation completes, on any stream. Returns false if no operation would end by itself.
bool step();
/// Runs until no operation would end by itself.
void run_until_idle();

// Streams

/// No operation of this stream starts until the stream is released. Running operations continue.
void hold(CUstream);
void release(CUstream);
/// The same for a default stream: CU_STREAM_LEGACY, or CU_STREAM_PER_THREAD for the calling thread's.
void hold(CUstream, CUcontext);
void release(CUstream, CUcontext);
/// The number of operations on this stream that have not completed.
std::size_t pending(CUstream);

// Kernels. A kernel computes nothing and only takes time.

struct Kernel {
  /// How long the kernel runs. With `endless`, it runs until end_kernels() ends it.
  Nanoseconds duration{10'000};
  /// Other than CUDA_SUCCESS: the kernel ends with this fault, which becomes the sticky error of its process.
  CUresult fault = CUDA_SUCCESS;
};
inline constexpr Nanoseconds endless = Nanoseconds::max();

/// Sets what kernels of this name do from the next launch on. The empty name means every kernel without an
/// entry.
void set_kernel(std::string_view name, Kernel);
/// Ends the running endless kernels of this name.
void end_kernels(std::string_view name);

// Faults

/// Gives the process of this context the sticky fault `result`, as if a kernel had written to an illegal
/// address. Its pending work never completes. Events that completed before still return success until a call
/// reports the fault, or 100 ms have passed. Then every call on streams or events returns the fault.
void make_context_fault(CUcontext, CUresult result);
/// The driver of this process starts to unload: every call returns CUDA_ERROR_DEINITIALIZED.
void shut_down(int process = 0);

/// Ends this process. Its contexts and handles are gone. Its events stay valid for a process that has opened
/// them. The process may call cuInit again, as a new process.
void end_process(int process);

// Counts

struct HandleCounts {
  std::size_t contexts = 0; ///< created contexts, green contexts, and active primary contexts
  std::size_t streams = 0;  ///< without default streams
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

/// The contexts pushed on the calling thread. The current context is last.
std::vector<CUcontext> context_stack(int process = 0);

/// The number of driver calls in this session, including refused ones, but not calls that work before cuInit.
unsigned long long calls(int process = 0);

} // namespace cuevent::sim
