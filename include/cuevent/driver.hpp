// SPDX-License-Identifier: MIT
/// \file
/// \brief Driver: a table of driver functions that is resolved once and never linked.
///
/// - Stream handle 0 always means the legacy stream, even in a file compiled with
///   CUDA_API_PER_THREAD_DEFAULT_STREAM. Pass CU_STREAM_PER_THREAD for the per-thread stream.
/// - In a forked child the driver is unusable. Every function of its table returns
///   CUDA_ERROR_NOT_INITIALIZED, members throw NotInitialized, and destructors do nothing.
/// - Once the process exits, and before the driver unloads, every function returns
///   CUDA_ERROR_DEINITIALIZED.
/// - Objects of one driver never call the functions of another driver.
#pragma once

#include <cuevent/error.hpp>

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

// Declarations that older CUDA headers lack.
#if CUDA_VERSION < 12030
struct CUgraphEdgeData_st {
  unsigned char from_port, to_port, type, reserved[5];
};
using CUgraphEdgeData = CUgraphEdgeData_st;
using PFN_cuStreamGetCaptureInfo_v12030 = CUresult(CUDAAPI*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*,
                                                             CUgraph*, const CUgraphNode**,
                                                             const CUgraphEdgeData**, size_t*);
using PFN_cuStreamUpdateCaptureDependencies_v12030 = CUresult(CUDAAPI*)(CUstream, CUgraphNode*,
                                                                        const CUgraphEdgeData*, size_t,
                                                                        unsigned);
using PFN_cuStreamBeginCaptureToGraph_v12030 = CUresult(CUDAAPI*)(CUstream, CUgraph, const CUgraphNode*,
                                                                  const CUgraphEdgeData*, size_t,
                                                                  CUstreamCaptureMode);
#endif
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
#if CUDA_VERSION < 12090
enum CUlogLevel : unsigned;
using CUlogsCallbackHandle = struct CUlogsCallbackEntry_st*;
using CUlogsCallback = void(CUDA_CB*)(void*, CUlogLevel, char*, size_t);
using PFN_cuLogsRegisterCallback_v12090 = CUresult(CUDAAPI*)(CUlogsCallback, void*, CUlogsCallbackHandle*);
using PFN_cuLogsUnregisterCallback_v12090 = CUresult(CUDAAPI*)(CUlogsCallbackHandle);
#endif

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The signature of cuGetProcAddress_v2: a source of driver entry points.
using GetProcAddress = PFN_cuGetProcAddress_v12000;

/// One function of a driver's table. When the process exits or forks, the function is replaced by
/// one that only returns an error. Other threads may be calling it at that moment, so the pointer
/// is read atomically, at no extra cost.
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

/// One pointer per driver function, named after the CUDA version of its signature. Use it for
/// calls that cuevent does not wrap.
///
///     const DriverTable& table = driver.table();
///     CUcontext current = nullptr;
///     table.cuCtxGetCurrent_v4000(&current);
///
/// Thread-safety: any thread.
/// Context: as the driver function.
/// During capture: as the driver function.
struct DriverTable {
  int version = 0; ///< from cuDriverGetVersion: 13000 is CUDA 13.0
  EntryPoint<GetProcAddress> get_proc_address;
  /// The time in nanoseconds of std::chrono::steady_clock, or of the clock of a simulated driver.
  EntryPoint<long long (*)()> clock_now;
  /// Sleeps for `nanoseconds` on that clock.
  EntryPoint<void (*)(long long nanoseconds)> pause;
#define CUEVENT_REQUIRED(name, version) EntryPoint<PFN_##name##_v##version> name##_v##version;
#include <cuevent/driver_symbols.inc>
};
bool operator==(const DriverTable& a, const DriverTable& b) noexcept;
inline bool operator!=(const DriverTable& a, const DriverTable& b) noexcept { return !(a == b); }

/// A cheap handle to the function table of one driver. Most programs use Driver::instance(). Pass
/// another Driver to use a simulated one. A driver is never unloaded, so its table lives as long
/// as the process.
///
///     assert(driver.version() >= 12000); // CUDA 12.0
///     const Context first = Context::primary(0, driver);
///     const DriverEvent made(first);
///
/// Thread-safety: any thread. The caller orders assignments to one Driver object.
/// Context: needs none and changes none.
/// During capture: harmless.
class Driver {
public:
  /// No driver. Every function of its table returns CUDA_ERROR_INVALID_HANDLE.
  constexpr Driver() noexcept : table_(&none_) {}

  /// The driver of this machine: libcuda.so.1, or the library named by the environment variable
  /// CUEVENT_DRIVER, which is ignored in setuid and setgid programs. Loaded by the first call. If
  /// loading fails, the next call tries again. Driver functions: cuGetProcAddress, cuInit,
  /// cuDriverGetVersion.
  /// Throws a DriverUnavailable:
  /// - SharedObjectInitFailed if there is no library.
  /// - StubLibrary if the library is the toolkit's link stub.
  /// - CallRequiresNewerDriver if the driver is older than CUDA 12.0.
  /// - NoDevice if the driver sees no device.
  /// - Any other failure of cuInit, with its code.
  static const Driver& instance();

  /// Loads `library`, a file name as for dlopen. Throws as instance().
  explicit Driver(const std::string& library);

  /// Takes the entry points from `get_proc_address` and calls cuInit. Throws as instance().
  explicit Driver(GetProcAddress get_proc_address);

  /// Non-throwing overloads of instance() and of the two constructors. `out` is assigned on
  /// success only.
  [[nodiscard]] static CUresult try_load(Driver& out) noexcept;
  [[nodiscard]] static CUresult try_load(Driver& out, const char* library) noexcept;
  [[nodiscard]] static CUresult try_load(Driver& out, GetProcAddress get_proc_address) noexcept;

  /// The CUDA version of the driver: 13000 is CUDA 13.0. Returns 0 for no driver. No driver call.
  int version() const noexcept { return table_->version; }

  const DriverTable& table() const noexcept { return *table_; }

  /// Finds another entry point of the same driver: the function `name` as it was in CUDA
  /// `version`. `Function` is its type from cudaTypedefs.h, and `version` repeats the suffix of
  /// that type: entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000). Driver function:
  /// cuGetProcAddress. Throws NotSupported if the driver is too old, with the version that is
  /// needed, and NotFound if the name is unknown.
  template <class Function>
  Function entry_point(const char* name, int version) const {
    return reinterpret_cast<Function>(find_entry_point(name, version));
  }
  /// `out` is assigned on success only.
  template <class Function>
  [[nodiscard]] CUresult try_entry_point(Function& out, const char* name, int version) const noexcept {
    void* found = nullptr;
    const CUresult result = look_up(found, name, version);
    if (result == CUDA_SUCCESS) out = reinterpret_cast<Function>(found);
    return result;
  }

  /// Throws the exception for `result` of the driver function `call`. If the driver is too old to
  /// have that function, the text says so. `advice`, if not null, replaces the default advice.
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call, const char* advice = nullptr) const;

  explicit operator bool() const noexcept { return table_ != &none_; }
  friend bool operator==(const Driver& a, const Driver& b) noexcept { return a.table_ == b.table_; }
  friend bool operator!=(const Driver& a, const Driver& b) noexcept { return !(a == b); }

private:
  friend class EventAccess; // keeps the address of a table
  explicit Driver(const DriverTable& table) noexcept : table_(&table) {}

  void* find_entry_point(const char* name, int version) const;
  [[nodiscard]] CUresult look_up(void*& out, const char* name, int version) const noexcept;

  static DriverTable none_; // filled when the library is loaded
  const DriverTable* table_;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
