// SPDX-License-Identifier: MIT
// Eleven ways to hide 2 ms of work from a time: what two events say, and what measure() finds.
#include "testbed.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/context.hpp>
#include <cuevent/graph_exec.hpp>

#include <functional>
#include <semaphore>
#include <thread>

namespace measuring {

namespace {

constexpr Length decoy = 10us, piece = 1ms;
constexpr int pieces = 2;

void hide(const Spin& spin, CUstream stream) {
  for (int i = 0; i < pieces; ++i)
    spin.launch(piece, stream);
}

class Cheats {
public:
  explicit Cheats(const Testbed& testbed) : testbed_(testbed) {}

  using Work = std::function<void(CUstream)>;

  void run(const char* name, const Work& work, const char* limit = nullptr) {
    MeasureOptions options;
    options.time_limit = 2s; // samples that disagree are no evidence
    work(testbed_.stream()); // loads what is loaded at the first use
    testbed_.finish();
    const double two_events = testbed_.between_events(work);
    testbed_.finish();
    const Measurement found = testbed_.measure(work, options).found;
    testbed_.finish();
    const std::string why = evidence(found);
    ++all_;
    if (!why.empty()) ++caught_;
    const bool right = !why.empty() || limit != nullptr;
    std::printf("| %s | %.1f us | %.1f us | %s | %s |\n", name, two_events, us(found.median),
                !why.empty()       ? "yes"
                : limit != nullptr ? "no"
                                   : "**NO**",
                !why.empty()       ? why.c_str()
                : limit != nullptr ? limit
                                   : found.doubt().c_str());
    std::fflush(stdout);
    right_ = right_ && right;
  }

  bool end() const {
    std::printf("\n%d of %d ways are caught.\n", caught_, all_);
    return right_;
  }

private:
  const Testbed& testbed_;
  int all_ = 0, caught_ = 0;
  bool right_ = true;
};

#if CUDA_VERSION >= 12050
/// A stream of a green context of the device.
class GreenStream {
public:
  explicit GreenStream(const gpu::Gpu& gpu) : gpu_(gpu) {
    CUdevResource resource{};
    CUdevResourceDesc description = nullptr;
    const cuevent::Driver& driver = gpu.driver;
    gpu::Call<PFN_cuDeviceGetDevResource_v12040>(driver, "cuDeviceGetDevResource",
                                                 12040)(0, &resource, CU_DEV_RESOURCE_TYPE_SM);
    gpu::Call<PFN_cuDevResourceGenerateDesc_v12040>(driver, "cuDevResourceGenerateDesc", 12040)(&description,
                                                                                                &resource, 1);
    gpu::Call<PFN_cuGreenCtxCreate_v12040>(driver, "cuGreenCtxCreate", 12040)(&green_, description, 0,
                                                                              CU_GREEN_CTX_DEFAULT_STREAM);
    gpu::Call<PFN_cuGreenCtxStreamCreate_v12050>(driver, "cuGreenCtxStreamCreate",
                                                 12050)(&stream_, green_, CU_STREAM_NON_BLOCKING, 0);
  }
  GreenStream(const GreenStream&) = delete;
  GreenStream& operator=(const GreenStream&) = delete;
  ~GreenStream() {
    gpu_.stream_destroy.or_report(stream_);
    gpu::Call<PFN_cuGreenCtxDestroy_v12040>(gpu_.driver, "cuGreenCtxDestroy", 12040).or_report(green_);
  }

  operator CUstream() const { return stream_; }

private:
  const gpu::Gpu& gpu_;
  CUgreenCtx green_ = nullptr;
  CUstream stream_ = nullptr;
};
#endif

/// Whenever a host function says so, a thread submits hidden work.
class Accomplice {
public:
  explicit Accomplice(const Testbed& testbed) : testbed_(testbed) {}
  Accomplice(const Accomplice&) = delete;
  Accomplice& operator=(const Accomplice&) = delete;
  ~Accomplice() {
    stop_ = true;
    told_.release();
    thread_.join();
  }

  /// Adds the host function to the stream. Waits until the thread has done what it was told before.
  void tell(CUstream on) {
    if (expected_) done_.acquire();
    expected_ = true;
    testbed_.gpu().launch_host_function(
        on, [](void* self) { static_cast<Accomplice*>(self)->told_.release(); }, this);
  }

private:
  void run() {
    const cuevent::ContextGuard current(testbed_.gpu().context);
    while (true) {
      told_.acquire();
      if (stop_) return;
      hide(testbed_.spin(), testbed_.other());
      done_.release();
    }
  }

  const Testbed& testbed_;
  std::counting_semaphore<> told_{0}, done_{0};
  bool expected_ = false;
  bool stop_ = false; // ordered by the semaphore
  std::thread thread_{[this] { run(); }};
};

} // namespace

bool catch_cheats(const Testbed& testbed) {
  const gpu::Gpu& gpu = testbed.gpu();
  const Spin& spin = testbed.spin();
  const CUstream other = testbed.other();
  std::puts("\n### Ways to cheat\n\nEach hides 2 ms of work. Two events around the work, and `measure`:\n\n"
            "| the work | two events | the median of `measure` | caught | how |\n"
            "| --- | ---: | ---: | --- | --- |");
  Cheats cheats(testbed);

  cheats.run("runs on another stream", [&](CUstream) { hide(spin, other); });
  cheats.run("is submitted by another thread, to its stream", [&](CUstream) {
    std::thread([&] {
      const cuevent::ContextGuard current(gpu.context);
      hide(spin, other);
    }).join();
  });

  cuevent::StreamCapture capture(gpu.context, other);
  hide(spin, other);
  cuevent::GraphExec graph = capture.end().instantiate();
  cheats.run("is a graph that runs on another stream", [&](CUstream) { graph.launch(other); });

  cheats.run("hides behind a kernel on the measured stream", [&](CUstream on) {
    spin.launch(decoy, on);
    hide(spin, other);
  });

  DriverEvent earlier(gpu.context);
  earlier.record(other);
  cheats.run("was begun before the start, by the sample before", [&](CUstream on) {
    earlier.wait(on);
    hide(spin, other);
    earlier.record(other);
  });

  DriverEvent forked(gpu.context);
  cheats.run("forks, and the end is recorded in the branch that does not join", [&](CUstream on) {
    forked.record(on);
    forked.wait(other);
    spin.launch(decoy, on);
    hide(spin, other);
  });

  cheats.run("runs on the per-thread stream", [&](CUstream) { hide(spin, CU_STREAM_PER_THREAD); });

  {
    const cuevent::Context second = cuevent::Context::create(0, gpu.driver);
    const cuevent::ContextGuard current(second);
    const Spin its_spin(gpu);
    const gpu::Stream its_stream = gpu.stream();
    const auto in_second = [&](CUstream) {
      const cuevent::ContextGuard its(second);
      hide(its_spin, its_stream);
    };
    const cuevent::ContextGuard back(gpu.context);
    cheats.run("runs in a second context", in_second, "a documented limit: `measure` sees one context");
    const cuevent::ContextGuard again(second);
    cuevent::DriverEvent done(second);
    done.record(its_stream);
    done.synchronize();
  }

#if CUDA_VERSION >= 12050
  {
    const GreenStream green(gpu);
    cheats.run("runs in a green context", [&](CUstream) { hide(spin, green); });
  }
#else
  std::puts("| runs in a green context | | | not tried | the headers of cuda.h are older than CUDA 12.5 |");
#endif

  {
    Accomplice accomplice(testbed);
    cheats.run("is submitted when a host function on the measured stream has run", [&](CUstream on) {
      spin.launch(decoy, on);
      accomplice.tell(on);
    });
  }

  cheats.run("allocates and frees memory, which waits for the device", [&](CUstream on) {
    const gpu::DeviceMemory memory = gpu.device_memory(1 << 20);
    hide(spin, on);
  });
  return cheats.end();
}

} // namespace measuring
