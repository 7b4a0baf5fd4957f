// The driver: a table of functions, resolved once, never linked.
#pragma once

#include <cuevent/error.hpp>

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

// What older headers lack.
#if CUDA_VERSION < 12040
using CUgreenCtx = struct CUgreenCtx_st*;
using PFN_cuGreenCtxRecordEvent_v12040 = CUresult(CUDAAPI*)(CUgreenCtx, CUevent);
using PFN_cuGreenCtxWaitEvent_v12040 = CUresult(CUDAAPI*)(CUgreenCtx, CUevent);
#endif
#if CUDA_VERSION < 12050
using PFN_cuCtxRecordEvent_v12050 = CUresult(CUDAAPI*)(CUcontext, CUevent);
using PFN_cuCtxWaitEvent_v12050 = CUresult(CUDAAPI*)(CUcontext, CUevent);
#endif
#if CUDA_VERSION < 12080
using PFN_cuEventElapsedTime_v12080 = PFN_cuEventElapsedTime_v2000;
#endif

#pragma GCC visibility push(default)
namespace cuevent {

/// The signature of cuGetProcAddress_v2: any source of driver entry points.
using GetProcAddress = PFN_cuGetProcAddress_v12000;

/// A function of a driver's table. When the process exits or forks it is replaced by one that only returns an
/// error, while other threads may be calling it: so it is read atomically, which costs nothing.
template <class Function>
class EntryPoint {
public:
  constexpr EntryPoint(Function function = nullptr) noexcept : function_(function) {}
  EntryPoint& operator=(Function function) noexcept {
    __atomic_store_n(&function_, function, __ATOMIC_RELAXED);
    return *this;
  }
  operator Function() const noexcept { return __atomic_load_n(&function_, __ATOMIC_RELAXED); }

private:
  Function function_;
};

/// One pointer per driver function, each named by the CUDA version of its signature:
/// table.cuEventQuery_v2000(event).
///
/// Once the process exits and before the driver itself unloads, every function returns
/// CUDA_ERROR_DEINITIALIZED; in the child of a fork, whose driver is not usable, CUDA_ERROR_NOT_INITIALIZED.
/// Thread-safety: any thread. Context and capture: as each driver function.
struct DriverTable {
  int version = 0; ///< cuDriverGetVersion: 13000 is CUDA 13.0
  EntryPoint<GetProcAddress> get_proc_address;
  /// Nanoseconds of std::chrono::steady_clock, or of a simulated driver's clock.
  EntryPoint<long long (*)()> clock_now;
  /// Sleeps by that clock.
  EntryPoint<void (*)(long long nanoseconds)> pause;
#define CUEVENT_REQUIRED(name, version) EntryPoint<PFN_##name##_v##version> name##_v##version;
#define CUEVENT_OPTIONAL(name, version) EntryPoint<PFN_##name##_v##version> name##_v##version;
#include <cuevent/driver_symbols.inc>
#undef CUEVENT_REQUIRED
#undef CUEVENT_OPTIONAL
  friend bool operator==(const DriverTable& a, const DriverTable& b) noexcept {
    return a.version == b.version && a.get_proc_address == b.get_proc_address && a.clock_now == b.clock_now &&
           a.pause == b.pause
#define CUEVENT_REQUIRED(name, version) &&a.name##_v##version == b.name##_v##version
#define CUEVENT_OPTIONAL(name, version) &&a.name##_v##version == b.name##_v##version
#include <cuevent/driver_symbols.inc>
#undef CUEVENT_REQUIRED
#undef CUEVENT_OPTIONAL
        ;
  }
  friend bool operator!=(const DriverTable& a, const DriverTable& b) noexcept { return !(a == b); }
};

/// A cheap handle to the table of one driver. Tables are made once and kept for the life of the process: a
/// driver is never unloaded. Handles of one driver never reach another driver's functions. In the child of a
/// fork every call throws NotInitialized, and what is destroyed there is destroyed silently.
///
/// Stream handle 0 means the legacy stream here, also in a file compiled with
/// CUDA_API_PER_THREAD_DEFAULT_STREAM; pass CU_STREAM_PER_THREAD for the per-thread one.
///
/// Thread-safety: any thread; a Driver object is assigned under the caller's ordering.
/// Context: needs and changes none.
/// During capture: harmless.
class Driver {
public:
  /// No driver: every function of its table returns CUDA_ERROR_INVALID_HANDLE.
  Driver() noexcept : table_(&none_) {}

  /// The driver of this machine: libcuda.so.1, or the library that the environment variable CUEVENT_DRIVER
  /// names (it is ignored in setuid and setgid programs). Loaded at the first call; a failed call is tried
  /// again by the next. Throws DriverUnavailable, and says which: no library (SharedObjectInitFailed), the
  /// toolkit's link stub (StubLibrary), a driver older than CUDA 12.0 (CallRequiresNewerDriver), no device
  /// (NoDevice), or another failure of cuInit with its code.
  static const Driver& instance();

  /// Loads `library`, a file name as for dlopen. Throws as instance().
  explicit Driver(const std::string& library);

  /// Takes the entry points from `get_proc_address` and calls cuInit. Throws as instance().
  explicit Driver(GetProcAddress get_proc_address);

  /// The twins of the three above. `out` is assigned on success only.
  static CUresult try_load(Driver& out) noexcept;
  static CUresult try_load(Driver& out, const char* library) noexcept;
  static CUresult try_load(Driver& out, GetProcAddress get_proc_address) noexcept;

  /// The CUDA version of the driver: 13000 is 13.0. 0 for no driver.
  int version() const noexcept { return table_->version; }

  const DriverTable& table() const noexcept { return *table_; }

  /// Any other entry point of the same driver, with the signature of `Function`, as it was in CUDA `version`:
  /// entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000). Driver function: cuGetProcAddress.
  /// Throws NotSupported, naming the version it needs, if the driver is older, and NotFound for an unknown
  /// name.
  template <class Function>
  Function entry_point(const char* name, int version) const {
    return reinterpret_cast<Function>(find_entry_point(name, version));
  }

  /// Throws the exception for `result` of `call`. Where the entry is missing from an older driver, says so.
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call, const char* advice = nullptr) const;

  explicit operator bool() const noexcept { return table_ != &none_; }
  friend bool operator==(const Driver& a, const Driver& b) noexcept { return a.table_ == b.table_; }
  friend bool operator!=(const Driver& a, const Driver& b) noexcept { return !(a == b); }

private:
  void* find_entry_point(const char* name, int version) const;

  static const DriverTable none_;
  const DriverTable* table_;
};

} // namespace cuevent
#pragma GCC visibility pop
