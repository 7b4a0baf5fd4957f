// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The control functions of the simulated CUDA driver: what a test can do that a device cannot.
///
/// Get the driver as usual, through a `cuGetProcAddress`:
///
///     cuevent::sim::Options options;
///     options.devices = 2;
///     cuevent::sim::Machine machine(options);
///     cuevent::Driver driver(cuevent::sim::get_proc_address);
///
/// Thread-safety: any thread may call any function here, with two exceptions. No thread may be inside a
/// driver call while a Machine is made or destroyed, or while `reset` runs. A host function may not call
/// any function here.

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cuevent::sim {

using Nanoseconds = std::chrono::nanoseconds;

/// What makes time pass.
enum class Mode {
  stepped, ///< work progresses only inside driver calls and control calls, on a virtual clock; deterministic
  running, ///< a thread advances the work on wall time, as a device does
};

/// What happens to a call that the simulator does not model, as a whole or with these arguments.
enum class Unmodelled {
  abort,   ///< it prints its name and the caller's stack, and aborts
  missing, ///< the same, but cuGetProcAddress finds no function that is not modelled at all, with
           ///< CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND: a program with a fallback takes it
  error,   ///< it returns CUDA_ERROR_NOT_SUPPORTED and changes nothing; the first one of each name is printed
};

/// A machine has at most this many devices.
inline constexpr int most_devices = 8;

/// The driver that is simulated unless the options say otherwise: CUDA 13.0, with which the answers were
/// measured, or the version of the headers if they are older.
inline constexpr int usual_driver_version = std::min(CUDA_VERSION, 13000);
/// The newest driver that can be simulated. Functions that came after CUDA 13.0 are found, and not modelled.
inline constexpr int newest_driver_version = CUDA_VERSION < 13000 ? CUDA_VERSION : 13050;

struct Options {
  Mode mode = Mode::stepped;
  int devices = 1;                           ///< 1 to most_devices
  int driver_version = usual_driver_version; ///< at least 12000; functions newer than this are not found
  /// The seed for the order of operations that may run in any order. If empty, they run in the order of
  /// submission.
  std::optional<std::uint64_t> random_order{};
  /// The seed for handles that are given away again, as a driver does with the addresses of its objects: a
  /// new object often gets the handle of one that was destroyed, of any kind. A call with the old handle then
  /// means the new object, so some mistakes look like right calls. If empty, each handle is new, and every
  /// use of a destroyed object is found.
  std::optional<std::uint64_t> reuse_handles{};
  /// If a waiting call sees no progress for this time, it prints which operation waits for which, and
  /// aborts. Zero means immediately.
  std::chrono::milliseconds patience{30'000};
  /// The number of places in the launch queue of a stream. A submission that finds no place blocks its
  /// thread. The places that a submission takes:
  /// - One: a kernel, a copy, a memory operation, a record of a timed or interprocess event, a graph launch.
  /// - None: any other record, a wait for an event, a host function.
  /// - 18: a record of an event with CU_EVENT_BLOCKING_SYNC, and a launch of a graph that keeps user
  ///   objects. On a device each of them took 17 to 51 places.
  ///
  /// A launch also takes one place for each timed record node, if the graph has other nodes too.
  std::size_t queue_limit = 1020;
  bool memory_operations_64_bit = true; ///< false simulates a device without 64-bit memory operations
  Unmodelled unmodelled = Unmodelled::abort;
};

/// Starts a new session. No handle, context, fault or setting of the old session remains, and handles of
/// the old session stay invalid, also with `reuse_handles`: a call with one of them is a call that is not
/// modelled, see Options::unmodelled. Virtual time starts at zero. Callbacks of
/// cuLogsRegisterCallback stay, because a program registers one for as long as it runs.
void reset(const Options& = {});

/// A session for a scope. The constructor starts it, and the destructor starts a default session.
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

/// The driver as simulated process 0 sees it. In addition to the driver's functions, it provides:
/// - `cueventOtherProcess`: cuGetProcAddress as the other simulated process sees it.
/// - `cueventClockNow`, of type `long long()`: returns the virtual time in ns. Only in stepped mode, for
///   cuevent's timed waits.
/// - `cueventPause`, of type `void(long long ns)`: advances the virtual time. Only in stepped mode, likewise.
CUresult CUDAAPI get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status);

/// The driver as simulated process 0 or 1 sees it. Both have the same devices. Each has its own contexts,
/// handles and faults. cuIpcGetEventHandle and cuIpcOpenEventHandle share events between them.
GetProcAddress get_proc_address_of(int process);

// Time. In running mode, `now` is the wall time since the session began, and the other three only run work
// that is due.

/// The virtual time since the session began.
Nanoseconds now();
/// Advances the virtual clock by this time, and runs all work that is due by then.
void advance(Nanoseconds);
/// Advances to the next completion of an operation, on any device. Returns false if nothing can complete
/// by itself.
bool step();
/// Runs until nothing can complete by itself.
void run_until_idle();

// Streams

/// Stops the stream from starting work until release(). Running work continues.
void hold(CUstream);
void release(CUstream);
/// The same for a default stream of a context: CU_STREAM_LEGACY, or CU_STREAM_PER_THREAD for the calling
/// thread's per-thread stream.
void hold(CUstream, CUcontext);
void release(CUstream, CUcontext);
/// The number of operations of this stream that have not completed yet.
std::size_t pending(CUstream);
std::size_t pending(CUstream, CUcontext);
/// All operations that have not completed yet, in the order of submission: for each one, what it is, its
/// stream, and what it waits for. For people to read: the texts may change.
std::vector<std::string> pending_operations();

// Kernels. A simulated kernel is only a delay, and computes nothing.

struct Kernel {
  /// How long the kernel runs. An `endless` kernel runs until end_kernels() ends it.
  Nanoseconds duration{10'000};
  /// If not CUDA_SUCCESS, the kernel ends with this fault, which becomes the sticky error of its process.
  CUresult fault = CUDA_SUCCESS;
};
inline constexpr Nanoseconds endless = Nanoseconds::max();

/// Sets what kernels of this name do from their next launch on. The empty name applies to all other
/// kernels.
void set_kernel(std::string_view name, Kernel);
/// Ends the running endless kernels of this name.
void end_kernels(std::string_view name);

/// Sets what the kernels of the next launches of this exec give to a conditional handle. Without it, each
/// handle keeps its initial value, which is 0 if the handle has no default.
/// - An IF node runs its first body if the value is not 0, and otherwise its second body, if there is one.
/// - A SWITCH node runs the body with this index, if there is one.
/// - A WHILE node runs its body this often, each time that the launch comes to the node. Without this call, a
///   launch of a WHILE node whose initial value is not 0 is not modelled, see Options::unmodelled.
void set_conditional(CUgraphExec, cuuint64_t handle, unsigned value);

// Faults

/// Gives the process of this context the sticky fault `result`, as if a kernel had written to an illegal
/// address. Its pending work never completes. Calls on events that completed earlier still succeed until a
/// call has reported the fault or 100 ms have passed. Afterwards every call on a stream or event returns
/// the fault.
void make_context_fault(CUcontext, CUresult result);
/// Begins to unload the driver of this process. From then on every call returns CUDA_ERROR_DEINITIALIZED.
void shut_down(int process = 0);

/// The next call of this function changes nothing and returns `result`. If the call would be refused before
/// the driver looks at its arguments, for example without cuInit, the call after that fails. Each call of
/// `fail_next` makes one call fail. The name is the documented one, without a version: "cuMemAlloc". Calls
/// that work before cuInit cannot fail.
void fail_next(std::string_view function, CUresult result, int process = 0);

/// Ends this process. Its contexts and handles are gone. Events that the other process opened stay valid.
/// The process number may call cuInit again, as a new process.
void end_process(int process);

// Handles and counts

struct HandleCounts {
  std::size_t contexts = 0; ///< created contexts, green contexts, and active primary contexts
  std::size_t streams = 0;  ///< created streams
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t graph_execs = 0;
  std::size_t user_objects = 0;
  std::size_t modules = 0;
  std::size_t allocations = 0; ///< device and host memory, and arrays
  friend constexpr bool operator==(const HandleCounts& a, const HandleCounts& b) noexcept {
    return a.contexts == b.contexts && a.streams == b.streams && a.events == b.events &&
           a.graphs == b.graphs && a.graph_execs == b.graph_execs && a.user_objects == b.user_objects &&
           a.modules == b.modules && a.allocations == b.allocations;
  }
  friend constexpr bool operator!=(const HandleCounts& a, const HandleCounts& b) noexcept {
    return !(a == b);
  }
};
/// The number of handles of each kind that exist.
HandleCounts live_handles(int process = 0);

/// The contexts pushed on the calling thread. The current context is the last one. The first overload writes
/// at most `size` of them, and returns how many there are.
std::size_t context_stack(CUcontext* out, std::size_t size, int process);
// Inline, because with _GLIBCXX_DEBUG the caller has another std::vector than the library.
inline std::vector<CUcontext> context_stack(int process = 0) {
  std::vector<CUcontext> stack(context_stack(nullptr, 0, process));
  context_stack(stack.data(), stack.size(), process);
  return stack;
}

/// The number of driver calls in this session, including refused calls. Calls that work before cuInit are
/// not counted.
unsigned long long calls(int process = 0);

/// The functions called since the last time that are not modelled, as a whole or with the arguments of the
/// call: "cuImportExternalMemory", "cuDeviceGetP2PAttribute: attributes of two devices". Each once, in the
/// order of names. There are some only with Unmodelled::error. A test after which there are any has not
/// tested these calls.
std::vector<std::string> take_unmodelled();

} // namespace cuevent::sim
