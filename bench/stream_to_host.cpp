// SPDX-License-Identifier: MIT
// How long after the last instruction of a kernel a spinning host knows that the stream got past it. The
// clock of the device is aligned with the host's before each sample. Needs a device.
#include "bare_word.hpp"
#include "part_of.hpp"

#include <exit_code.hpp>
#include <gpu.hpp>
#include <shared_memory.hpp>

#include <cuevent/driver_event.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace cuevent;

/// The processor's own clock: nothing slews it.
std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// `reply` stores the time whenever the host raises a word, and ends after 2 s at the latest.
constexpr char ptx[] = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry reply(.param .u64 from, .param .u64 to, .param .u64 times) {
  .reg .pred %early, %late;
  .reg .b64 %question, %answer, %count, %next, %seen, %now, %end;
  ld.param.u64 %question, [from];
  ld.param.u64 %answer, [to];
  ld.param.u64 %count, [times];
  mov.u64 %next, 1;
  mov.u64 %end, %globaltimer;
  add.u64 %end, %end, 2000000000;
again:
  ld.acquire.sys.global.u64 %seen, [%question];
  mov.u64 %now, %globaltimer;
  setp.gt.u64 %late, %now, %end;
  @%late ret;
  setp.lt.u64 %early, %seen, %next;
  @%early bra again;
  st.release.sys.global.u64 [%answer], %now;
  add.u64 %next, %next, 1;
  setp.le.u64 %early, %next, %count;
  @%early bra again;
  ret;
}

.visible .entry stamp(.param .u64 where) {
  .reg .b64 %where, %now;
  ld.param.u64 %where, [where];
  mov.u64 %now, %globaltimer;
  st.global.u64 [%where], %now;
  ret;
}
)";

class Clocks {
public:
  explicit Clocks(const gpu::Gpu& gpu)
      : gpu_(gpu), module_(gpu.module(ptx)), synchronize_(gpu.driver, "cuStreamSynchronize", 2000) {
    gpu.module_get_function(&reply_, module_, "reply");
    gpu.module_get_function(&stamp_, module_, "stamp");
  }

  /// Finds the difference of the clocks: the device stores its time between two times of the host.
  void align() {
    constexpr std::uint64_t questions = 50;
    store(question, 0);
    store(answer, 0);
    CUdeviceptr asked = address(question), answered = address(answer);
    std::uint64_t count = questions;
    void* arguments[] = {&asked, &answered, &count};
    gpu_.launch_kernel(reply_, 1, 1, 1, 1, 1, 1, 0, stream_, arguments, nullptr);
    lowest_ = std::numeric_limits<std::int64_t>::min();
    highest_ = std::numeric_limits<std::int64_t>::max();
    std::int64_t before = 0;
    for (std::uint64_t i = 1; i <= questions; ++i) {
      const std::int64_t start = now();
      store(question, i);
      std::int64_t device = before;
      while (device == before)
        device = static_cast<std::int64_t>(load(answer));
      lowest_ = std::max(lowest_, device - now());
      highest_ = std::min(highest_, device - start);
      before = device;
    }
    synchronize_(stream_);
  }

  void stamp(CUstream stream) {
    CUdeviceptr where = address(stamped);
    void* arguments[] = {&where};
    gpu_.launch_kernel(stamp_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  }
  /// From the stamp until the host's `time`, in us, and how wrong this can be.
  std::pair<double, double> since_stamp(std::int64_t time) const {
    const auto device = static_cast<std::int64_t>(load(stamped));
    const double earliest = static_cast<double>(time - device + lowest_) / 1e3;
    const double latest = static_cast<double>(time - device + highest_) / 1e3;
    return {(earliest + latest) / 2, (latest - earliest) / 2};
  }

private:
  enum Line : int { question, answer, stamped };
  std::uint64_t* word(Line line) const {
    return static_cast<std::uint64_t*>(memory_.memory()) + 8 * static_cast<std::size_t>(line);
  }
  CUdeviceptr address(Line line) const { return memory_.address() + 64 * static_cast<CUdeviceptr>(line); }
  void store(Line line, std::uint64_t value) const { __atomic_store_n(word(line), value, __ATOMIC_RELEASE); }
  std::uint64_t load(Line line) const { return __atomic_load_n(word(line), __ATOMIC_ACQUIRE); }

  const gpu::Gpu& gpu_;
  gpu::Module module_;
  gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize_;
  gpu::SharedMemory memory_{gpu_, gpu::SharedMemory::create(4096), 4096};
  gpu::Stream stream_ = gpu_.stream();
  CUfunction reply_ = nullptr, stamp_ = nullptr;
  std::int64_t lowest_ = 0, highest_ = 0; // the device's clock minus the host's
};

/// `submit` tells the host after the stamp, and `seen` is what the host asks without a pause.
template <class Submit, class Seen>
void row(const gpu::Gpu& gpu, Clocks& clocks, const char* what, int samples, Submit submit, Seen seen) {
  const gpu::Stream stream = gpu.stream();
  TimelineSemaphore gate(gpu.context);
  std::vector<double> delays, errors;
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(samples); ++round) {
    clocks.align();
    gate.wait(stream, round, WaitOrder::before_signal);
    clocks.stamp(stream);
    submit(stream, round);
    gate.signal(round);
    while (!seen(round)) {
    }
    const auto [delay, error] = clocks.since_stamp(now());
    delays.push_back(delay);
    errors.push_back(error);
  }
  std::printf("%-34s %8.2f %8.2f %8.2f %12.2f\n", what, median(delays), part_of(delays, 0.9),
              part_of(delays, 0.99), median(errors));
  std::fflush(stdout);
}

int measure(int samples) {
  const gpu::Gpu gpu;
  if (gpu.simulated()) {
    std::fputs("a simulated kernel computes nothing: this needs a device\n", stderr);
    return 77;
  }
  std::printf("%s, driver %d\n%-34s %8s %8s %8s %12s\n", gpu.name().c_str(), gpu.driver.version(), "us",
              "p50", "p90", "p99", "+-, p50");
  Clocks clocks(gpu);
  const gpu::SharedMemory memory(gpu, gpu::SharedMemory::create(BareWord::bytes), BareWord::bytes);
  const BareWord word(gpu, memory, 0);
  row(
      gpu, clocks, "a bare word", samples,
      [&](CUstream stream, std::uint64_t round) { word.signal(stream, round); },
      [&](std::uint64_t round) { return word.reached(round); });
  TimelineSemaphore semaphore(gpu.context);
  row(
      gpu, clocks, "TimelineSemaphore::reached", samples,
      [&](CUstream stream, std::uint64_t round) { semaphore.signal(stream, round); },
      [&](std::uint64_t round) { return semaphore.reached(round); });
  DriverEvent event(gpu.context);
  row(
      gpu, clocks, "DriverEvent::query", samples,
      [&](CUstream stream, std::uint64_t) { event.record(stream); },
      [&](std::uint64_t) { return event.query(); });
  return 0;
}

} // namespace

int main(int count, char** arguments) {
  alarm(60);                                 // a hang must not hold the device
  setenv("CUDA_MODULE_LOADING", "EAGER", 1); // a kernel that is loaded later could wait for the gate
  return exit_code([&] { return measure(count > 1 ? std::max(10, std::atoi(arguments[1])) : 1000); });
}
