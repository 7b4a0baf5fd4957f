// SPDX-License-Identifier: MIT
#include "timing/context_hold.hpp"

#include "core/blocked_signals.hpp"

#include <algorithm>
#include <ctime>
#include <linux/futex.h>
#include <new>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cuevent { inline namespace CUEVENT_ABI {

ContextHold::~ContextHold() {
  end();
  stop_watchdog();
  if (registered_) {
    const CUresult lost = context_.status();
    const CUresult result =
        lost == CUDA_SUCCESS ? context_.driver().table().cuMemHostUnregister_v4000(page_) : lost;
    report_end(result, "cuMemHostUnregister");
    if (result != CUDA_SUCCESS) return; // the device may still read the page
  }
  if (page_ != nullptr) munmap(page_, sizeof *page_);
}

Status ContextHold::create(const Context& context, CUstream measured, bool whole,
                           std::chrono::nanoseconds limit) {
  context_ = context;
  measured_ = measured;
  whole_ = whole;
  limit_ = limit;
  if (const CUresult result = stream_.create(context); result != CUDA_SUCCESS)
    return {result, "cuStreamCreate"};
  if (const CUresult result = DriverEvent::try_create(let_go_, context); result != CUDA_SUCCESS)
    return {result, "cuEventCreate"};
  const Status status = make_page();
  return status ? start_watchdog() : status;
}

Status ContextHold::make_page() noexcept {
  void* const page = mmap(nullptr, sizeof *page_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {CUDA_ERROR_OUT_OF_MEMORY, "mmap"};
  page_ = new (page) Page;
  const DriverTable& table = context_.driver().table();
  CUresult result = table.cuMemHostRegister_v6050(page_, sizeof *page_, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result != CUDA_SUCCESS) return {result, "cuMemHostRegister"};
  registered_ = true;
  result = table.cuMemHostGetDevicePointer_v3020(&address_, page_, 0);
  return {result, "cuMemHostGetDevicePointer"};
}

Status ContextHold::start_watchdog() noexcept {
  const BlockedSignals blocked;
  const auto watch = [](void* hold) -> void* {
    static_cast<ContextHold*>(hold)->run();
    return nullptr;
  };
  watched_ = pthread_create(&watchdog_, nullptr, watch, this) == 0;
  return watched_ ? Status{} : Status{CUDA_ERROR_OUT_OF_MEMORY, "pthread_create"};
}

void ContextHold::stop_watchdog() noexcept {
  if (!watched_ || !home_.is_this()) return;
  stop_.store(1);
  syscall(SYS_futex, &stop_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0L);
  pthread_join(watchdog_, nullptr);
}

Status ContextHold::begin() noexcept {
  const unsigned held = number_.load() + 1;
  begun_.store(std::chrono::steady_clock::now());
  number_.store(held);
  const DriverTable& table = context_.driver().table();
  CUresult result =
      table.cuStreamWaitValue32_v11070(stream_.handle(), address_, held + 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (result != CUDA_SUCCESS) return {result, "cuStreamWaitValue32"};
  result = let_go_.try_record(stream_.handle());
  if (result != CUDA_SUCCESS) return {result, "cuEventRecord"};
  if (whole_) return {let_go_.try_wait_context(context_), "cuCtxWaitEvent"};
  result = let_go_.try_wait(CU_STREAM_LEGACY);
  if (result == CUDA_SUCCESS) result = let_go_.try_wait(measured_);
  return {result, "cuStreamWaitEvent"};
}

bool ContextHold::end() noexcept { return let_go(number_.load()); }

/// Returns whether this call has ended the hold.
bool ContextHold::let_go(unsigned held) noexcept {
  if (held % 2 == 0 || !home_.is_this()) return false;
  if (!number_.compare_exchange_strong(held, held + 1)) return false;
  __atomic_store_n(&page_->passed, held + 1, __ATOMIC_RELEASE);
  return true;
}

void ContextHold::run() noexcept {
  using namespace std::chrono_literals;
  const std::chrono::nanoseconds period = std::clamp<std::chrono::nanoseconds>(limit_ / 8, 1ms, 5ms);
  const timespec pause{0, static_cast<long>(period.count())};
  while (stop_.load() == 0) {
    syscall(SYS_futex, &stop_, FUTEX_WAIT_PRIVATE, 0, &pause, nullptr, 0L);
    const unsigned held = number_.load();
    if (held % 2 != 0 && std::chrono::steady_clock::now() - begun_.load() >= limit_) let_go(held);
  }
}

}} // namespace cuevent::CUEVENT_ABI
