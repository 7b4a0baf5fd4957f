// SPDX-License-Identifier: MIT
#pragma once

#include "failure.hpp"
#include "meeting.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace cuevent::sim::nccl {

/// A context of the caller is current again afterwards.
class CurrentContext {
public:
  explicit CurrentContext(CUcontext context) { expect(cuCtxPushCurrent(context), "cuCtxPushCurrent"); }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() { cuCtxPopCurrent(nullptr); }
};

/// One rank of a communicator. Kernels that wait, and graphs with such kernels, keep it.
/// Thread-safety: safe, apart from what NCCL forbids.
class Communicator : public std::enable_shared_from_this<Communicator> {
public:
  /// On the device of the current context, or on device 0.
  explicit Communicator(bool is_blocking);

  /// A handle is the object's address, and known until forget().
  static std::shared_ptr<Communicator> known(ncclComm_t);
  /// A known one whose initialisation is complete.
  static std::shared_ptr<Communicator> ready(ncclComm_t);
  ncclComm_t handle();
  void forget();

  // The initialisation, on any thread
  void meet(const Meeting::Name&, unsigned ranks, unsigned rank);
  void meet_as_part_of(Communicator& parent, int color, int key);

  struct Collective {
    std::string kernel;
    std::uint64_t what; ///< the same number on all ranks
    const void* send;
    void* receive;
    std::size_t count;
    enum class Copies { nothing, from_root, from_all } copies;
    std::size_t bytes; ///< that each rank sends
    unsigned root;
  };
  void launch(const Collective&, CUstream);

  struct Transfers {
    std::vector<Meeting::Transfer> all;
    std::vector<void*> memory;
    std::set<CUstream> streams;
  };
  /// One kernel, ordered on all streams.
  void launch(const Transfers&);

  /// Waits until the last kernel has ended.
  void finish();
  /// Kernels no longer wait for other ranks, and neither does the initialisation.
  void abort();
  /// After forget(). An initialisation that has not ended was aborted.
  void leave();

  unsigned ranks() const { return meeting_->ranks(); }
  unsigned rank() const { return meeting_->rank(); }
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }

  const bool is_blocking;
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<int> reductions{0}; ///< made by ncclRedOpCreatePreMulSum
  std::atomic<bool> is_finalized{false};

private:
  class Gate;
  void launch(const std::string& kernel, void** parameters, std::unique_ptr<Gate>, CUstream);
  void order(CUstream);
  void record(CUstream);

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::shared_ptr<Meeting> meeting_;
  std::atomic<bool> is_aborted_{false};

  std::mutex mutex_; ///< of launches
  CUevent last_ = nullptr;
  CUstream last_stream_ = nullptr;
  unsigned long long last_capture_ = 0;
  bool has_last_ = false;
};

} // namespace cuevent::sim::nccl
