// SPDX-License-Identifier: MIT
// The few driver calls, in addition to event calls, that the examples need. Nothing links libcuda: each
// function is looked up by name once.
#pragma once

#include <cuevent/driver_event.hpp>
#include <cuevent/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gpu {

/// A driver function. If a call fails, it throws cuevent's exception.
template <class Function>
class Call;
template <class... Parameters>
class Call<CUresult (*)(Parameters...)> {
public:
  Call(const cuevent::Driver& driver, const char* name, int version)
      : driver_(driver), name_(name), function_(driver.entry_point<Function>(name, version)) {}

  void operator()(Parameters... arguments) const {
    if (const CUresult result = function_(arguments...); result != CUDA_SUCCESS) driver_.fail(result, name_);
  }

  /// The same call for destructors, which must not throw.
  void or_report(Parameters... arguments) const noexcept {
    if (const CUresult result = function_(arguments...); result != CUDA_SUCCESS)
      cuevent::report_error(result, name_);
  }

private:
  using Function = CUresult (*)(Parameters...);
  cuevent::Driver driver_;
  const char* name_;
  Function function_;
};

/// A handle, and the driver function that destroys it.
template <class Handle, class Function>
class Owned {
public:
  Owned(Handle handle, const Call<Function>& destroy) : handle_(handle), destroy_(destroy) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { destroy_.or_report(handle_); }

  operator Handle() const noexcept { return handle_; }

private:
  Handle handle_;
  Call<Function> destroy_;
};

using Stream = Owned<CUstream, PFN_cuStreamDestroy_v4000>;
using Module = Owned<CUmodule, PFN_cuModuleUnload_v2000>;
using DeviceMemory = Owned<CUdeviceptr, PFN_cuMemFree_v3020>;
using PinnedMemory = Owned<int*, PFN_cuMemFreeHost_v2000>;

/// A device with its primary context, which is current on this thread during the lifetime of this object.
/// Events do not need a current context, but the calls here do.
struct Gpu {
  explicit Gpu(const cuevent::Driver& its = cuevent::Driver::instance(), int device = 0)
      : driver(its), context(cuevent::Context::primary(device, driver)) {}

  cuevent::Driver driver;
  cuevent::Context context;
  cuevent::ContextGuard current{context};

  Call<PFN_cuDeviceGetName_v2000> device_get_name{driver, "cuDeviceGetName", 2000};
  Call<PFN_cuStreamCreate_v2000> stream_create{driver, "cuStreamCreate", 2000};
  Call<PFN_cuStreamCreateWithPriority_v5050> stream_create_with_priority{driver, "cuStreamCreateWithPriority",
                                                                         5050};
  Call<PFN_cuCtxGetStreamPriorityRange_v5050> stream_priorities{driver, "cuCtxGetStreamPriorityRange", 5050};
  Call<PFN_cuStreamDestroy_v4000> stream_destroy{driver, "cuStreamDestroy", 4000};
  Call<PFN_cuMemAlloc_v3020> mem_alloc{driver, "cuMemAlloc", 3020};
  Call<PFN_cuMemFree_v3020> mem_free{driver, "cuMemFree", 3020};
  Call<PFN_cuMemHostAlloc_v2020> mem_host_alloc{driver, "cuMemHostAlloc", 2020};
  Call<PFN_cuMemFreeHost_v2000> mem_free_host{driver, "cuMemFreeHost", 2000};
  Call<PFN_cuModuleLoadData_v2000> module_load_data{driver, "cuModuleLoadData", 2000};
  Call<PFN_cuModuleUnload_v2000> module_unload{driver, "cuModuleUnload", 2000};
  Call<PFN_cuModuleGetFunction_v2000> module_get_function{driver, "cuModuleGetFunction", 2000};

  // Work for a stream.
  Call<PFN_cuMemcpyHtoDAsync_v3020> copy_to_device{driver, "cuMemcpyHtoDAsync", 3020};
  Call<PFN_cuMemcpyDtoHAsync_v3020> copy_to_host{driver, "cuMemcpyDtoHAsync", 3020};
  Call<PFN_cuMemsetD8Async_v3020> fill{driver, "cuMemsetD8Async", 3020};
  Call<PFN_cuLaunchKernel_v4000> launch_kernel{driver, "cuLaunchKernel", 4000};
  Call<PFN_cuLaunchHostFunc_v10000> launch_host_function{driver, "cuLaunchHostFunc", 10000};
  Call<PFN_cuStreamWriteValue32_v11070> write_value{driver, "cuStreamWriteValue32", 11070};

  std::string name() const {
    char text[256] = "";
    device_get_name(text, sizeof text, context.device());
    return text;
  }

  /// On a simulated device times are modelled, and kernels compute nothing.
  bool simulated() const { return name().find("simulated") != std::string::npos; }

  /// All devices of the machine.
  int count() const {
    int devices = 0;
    Call<PFN_cuDeviceGetCount_v2000>(driver, "cuDeviceGetCount", 2000)(&devices);
    return devices;
  }

  Stream stream() const {
    CUstream handle = nullptr;
    stream_create(&handle, CU_STREAM_NON_BLOCKING);
    return {handle, stream_destroy};
  }
  /// A stream whose work has priority over other streams.
  Stream urgent_stream() const {
    int least = 0, greatest = 0;
    stream_priorities(&least, &greatest);
    CUstream handle = nullptr;
    stream_create_with_priority(&handle, CU_STREAM_NON_BLOCKING, greatest);
    return {handle, stream_destroy};
  }
  DeviceMemory device_memory(std::size_t ints) const {
    CUdeviceptr address = 0;
    mem_alloc(&address, ints * sizeof(int));
    return {address, mem_free};
  }
  PinnedMemory pinned_memory(std::size_t ints) const {
    void* address = nullptr;
    mem_host_alloc(&address, ints * sizeof(int), 0);
    return {static_cast<int*>(address), mem_free_host};
  }
  Module module(const char* ptx) const {
    CUmodule handle = nullptr;
    module_load_data(&handle, ptx);
    return {handle, module_unload};
  }
};

/// A kernel of one thread that keeps its stream busy for a given time.
class BusyKernel {
public:
  explicit BusyKernel(const Gpu& gpu) : gpu_(gpu) { gpu.module_get_function(&kernel_, module_, "busy"); }

  void launch(std::chrono::nanoseconds duration, CUstream stream) const {
    std::uint64_t nanoseconds = static_cast<std::uint64_t>(duration.count());
    void* arguments[] = {&nanoseconds};
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  }

private:
  static constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry busy(.param .u64 nanoseconds) {
  .reg .pred %early;
  .reg .b64 %now, %end, %duration;
  ld.param.u64 %duration, [nanoseconds];
  mov.u64 %now, %globaltimer;
  add.u64 %end, %now, %duration;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %end;
  @%early bra again;
  ret;
}
)";

  const Gpu& gpu_;
  Module module_ = gpu_.module(ptx);
  CUfunction kernel_ = nullptr;
};

/// Holds a stream back: work submitted after the gate does not start before the gate opens. Use one gate at a
/// time: all host functions may share one thread of the driver, and a closed gate keeps that thread busy.
class Gate {
public:
  Gate(const Gpu& gpu, CUstream stream) {
    auto mine = std::make_unique<Opened>(opened_);
    gpu.launch_host_function(stream, wait, mine.get());
    static_cast<void>(mine.release()); // the host function owns it now
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  void open() noexcept {
    opened_->store(true);
    opened_->notify_all();
  }

private:
  using Opened = std::shared_ptr<std::atomic<bool>>;
  static void CUDA_CB wait(void* mine) {
    const std::unique_ptr<Opened> opened(static_cast<Opened*>(mine));
    (*opened)->wait(false);
  }

  Opened opened_ = std::make_shared<std::atomic<bool>>(false);
};

} // namespace gpu
