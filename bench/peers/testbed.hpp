// SPDX-License-Identifier: MIT
// What all implementations share: device 0, its primary context, and the streams of each thread.
#pragma once

#include <cuevent/context.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peers {

constexpr std::size_t most_threads = 16;

class Testbed;

/// The objects of one thread. Threads share none of them.
class Lane {
public:
  explicit Lane(const Testbed& testbed);
  Lane(Lane&&) = default;

  const Testbed& testbed;
  CUstream stream, other;

  /// Waits until both streams are idle. A stream blocks the next submission after about 1,020 that
  /// have not run, and no such submission may be timed.
  void drain() const;

  /// Work submitted to `stream` from now on does not run before open(). The stream waits for a
  /// value in memory, so neither the device nor a host thread is busy.
  void hold();
  void open();

private:
  std::uint32_t* gate_;
  std::uint32_t opened_ = 0;
};

/// Never destroyed, because the driver may go before static objects.
class Testbed {
public:
  static Testbed& instance();

  cuevent::Driver driver;
  /// The driver of this process is a library of its own that no other implementation would find.
  bool simulated;
  cuevent::Context context = cuevent::Context::primary(0, driver);
  cuevent::Context borrowed = cuevent::Context::borrow(context.native_handle(), driver);
  std::vector<Lane> lanes;

  CUstream make_stream() const;
  void destroy(CUstream stream) const {
    check(driver.table().cuStreamDestroy_v4000(stream), "cuStreamDestroy");
  }
  void synchronize(CUstream stream) const { check(synchronize_stream_(stream), "cuStreamSynchronize"); }
  std::string device_name() const;

  void check(CUresult result, const char* call) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      driver.fail(result, call);
  }

private:
  Testbed();
  PFN_cuStreamSynchronize_v2000 synchronize_stream_;
};

} // namespace peers
