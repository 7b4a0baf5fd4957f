// SPDX-License-Identifier: MIT
// An allocator with the names and types of PyTorch's, as far as an observer sees it. The program exports its
// symbols, as PyTorch's libraries do.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace c10 {

struct GatheredContext;

namespace CachingDeviceAllocator {

struct TraceEntry {
  enum Action { ALLOC, FREE_REQUESTED, FREE_COMPLETED };
  Action action_;
  signed char device_;
  std::size_t addr_;
  std::shared_ptr<GatheredContext> context_;
  void* stream_;
  std::size_t size_;
  std::pair<unsigned long long, unsigned long long> mempool_;
};

} // namespace CachingDeviceAllocator

namespace cuda::CUDACachingAllocator {

using Tracker = std::function<void(const CachingDeviceAllocator::TraceEntry&)>;

class CUDAAllocator {
public:
  virtual ~CUDAAllocator() = default;
  virtual void init(int devices) = 0;
  virtual bool initialized() = 0;
  virtual void emptyCache() = 0;
  virtual void attachAllocatorTraceTracker(Tracker tracker) = 0;
};

inline std::atomic<CUDAAllocator*> allocator{nullptr};

namespace Native {

/// Gives the block that was freed last away again.
class NativeCachingAllocator : public CUDAAllocator {
public:
  void init(int) override { has_devices_ = true; }
  bool initialized() override { return has_devices_; }
  void emptyCache() override { free_.clear(); }
  void attachAllocatorTraceTracker(Tracker tracker) override { trackers_.push_back(std::move(tracker)); }

  std::size_t trackers() const { return trackers_.size(); }
  /// Divides the segment into blocks of that size.
  void use(CUdeviceptr segment, std::size_t block) { next_ = segment, block_ = block; }
  CUdeviceptr allocate(bool in_capture = false) {
    CUdeviceptr made = next_;
    if (free_.empty()) {
      next_ += block_;
    } else {
      made = free_.back();
      free_.pop_back();
    }
    tell(CachingDeviceAllocator::TraceEntry::ALLOC, made, in_capture);
    return made;
  }
  void free(CUdeviceptr freed) {
    tell(CachingDeviceAllocator::TraceEntry::FREE_REQUESTED, freed, false);
    tell(CachingDeviceAllocator::TraceEntry::FREE_COMPLETED, freed, false);
    free_.push_back(freed);
  }

private:
  void tell(CachingDeviceAllocator::TraceEntry::Action action, CUdeviceptr at, bool in_capture) {
    const CachingDeviceAllocator::TraceEntry entry{action, 0, at, nullptr, nullptr, block_, {in_capture, 0}};
    for (const Tracker& each : trackers_)
      each(entry);
  }

  std::vector<Tracker> trackers_;
  std::vector<CUdeviceptr> free_;
  CUdeviceptr next_ = 0;
  std::size_t block_ = 0;
  bool has_devices_ = false;
};

} // namespace Native
} // namespace cuda::CUDACachingAllocator
} // namespace c10

namespace torch::cuda::CUDAPluggableAllocator {

/// One that nobody can observe: PyTorch throws. The program defines the functions.
class CUDAPluggableAllocator : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
public:
  void init(int) override;
  bool initialized() override;
  void emptyCache() override;
  void attachAllocatorTraceTracker(c10::cuda::CUDACachingAllocator::Tracker) override;
};

} // namespace torch::cuda::CUDAPluggableAllocator
