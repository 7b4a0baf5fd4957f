// SPDX-License-Identifier: MIT
// Three uses of events: timing the stages of some work, ordering two streams, and timing the same work
// inside a graph.
#include "../support/gpu.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>

#include <chrono>
#include <cstdio>

using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::EventRef;
using cuevent::RecordFlags;

namespace {

constexpr int count = 16 << 20; // ints: 64 MiB
constexpr std::size_t bytes = count * sizeof(int);

/// data[i] = 2 * data[i] + 1
constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry twice_plus_one(.param .u64 data, .param .u32 count) {
  .reg .pred %outside;
  .reg .b32 %block, %block_size, %thread, %i, %count, %value;
  .reg .b64 %data, %offset, %address;

  mov.u32 %block, %ctaid.x;
  mov.u32 %block_size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %i, %block, %block_size, %thread;
  ld.param.u32 %count, [count];
  setp.ge.u32 %outside, %i, %count;
  @%outside ret;

  ld.param.u64 %data, [data];
  cvta.to.global.u64 %data, %data;
  mul.wide.u32 %offset, %i, 4;
  add.u64 %address, %data, %offset;
  ld.global.u32 %value, [%address];
  mad.lo.u32 %value, %value, 2, 1;
  st.global.u32 [%address], %value;
  ret;
}
)";

/// A copy to the device, a kernel and a copy back, with a timed event before, between and after them.
class Work {
public:
  explicit Work(const gpu::Gpu& gpu) : gpu_(gpu) {
    gpu.module_get_function(&kernel_, module_, "twice_plus_one");
    for (int i = 0; i < count; ++i)
      input_[i] = i;
  }

  /// Submits to a stream, or into the graph that the stream is being captured into. In a capture the events
  /// have to be external, so that each launch of the graph records them again.
  void submit(CUstream stream) {
    constexpr RecordFlags flags = RecordFlags::external_in_capture;
    start_.record(stream, flags);
    gpu_.copy_to_device(device_, input_, bytes, stream);
    copied_.record(stream, flags);
    launch_kernel(stream);
    computed_.record(stream, flags);
    gpu_.copy_to_host(output_, device_, bytes, stream);
    end_.record(stream, flags);
  }

  /// Waits for the work, prints its times, and returns whether its result is right.
  bool report(const char* title) {
    end_.synchronize();
    std::printf("  %-16s %10.3f ms %10.3f ms %10.3f ms %10.3f ms\n", title, milliseconds(start_, copied_),
                milliseconds(copied_, computed_), milliseconds(computed_, end_), milliseconds(start_, end_));
    if (gpu_.simulated()) return true; // nothing was computed
    for (int i = 0; i < count; ++i) {
      if (output_[i] != 2 * i + 1)
        return std::printf("  wrong: element %d is %d and not %d\n", i, output_[i], 2 * i + 1), false;
      output_[i] = 0; // so that the next result is not this one
    }
    return true;
  }

private:
  void launch_kernel(CUstream stream) {
    constexpr unsigned block = 256;
    CUdeviceptr data = device_;
    int size = count;
    void* arguments[] = {&data, &size};
    gpu_.launch_kernel(kernel_, count / block, 1, 1, block, 1, 1, 0, stream, arguments, nullptr);
  }

  static double milliseconds(EventRef from, EventRef to) {
    return static_cast<double>(from.elapsed_time(to).count());
  }

  const gpu::Gpu& gpu_;
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction kernel_ = nullptr;
  gpu::DeviceMemory device_ = gpu_.device_memory(count);
  gpu::PinnedMemory input_ = gpu_.pinned_memory(count);
  gpu::PinnedMemory output_ = gpu_.pinned_memory(count);
  DriverEvent start_{gpu_.context, EventFlags::timing};
  DriverEvent copied_{gpu_.context, EventFlags::timing};
  DriverEvent computed_{gpu_.context, EventFlags::timing};
  DriverEvent end_{gpu_.context, EventFlags::timing};
};

bool time_stages(const gpu::Gpu& gpu) {
  const gpu::Stream stream = gpu.stream();
  Work work(gpu);
  work.submit(stream); // once untimed: the first launch of a kernel also loads it

  std::printf("\n64 MiB, timed by events\n  %-16s %13s %13s %13s %13s\n", "", "host to dev", "kernel",
              "dev to host", "together");
  work.submit(stream);
  bool right = work.report("stream");

  cuevent::StreamCapture capture(gpu.context, stream);
  work.submit(stream);
  cuevent::GraphExec graph = capture.end().instantiate();
  for (const char* const title : {"graph, 1st time", "graph, 2nd time", "graph, 3rd time"}) {
    graph.launch(stream);
    right &= work.report(title);
  }
  return right;
}

/// One stream writes, two others read: one waits for the writer's event and one does not. A gate holds the
/// writer back for as long as it takes to see who reads when.
bool order_streams(const gpu::Gpu& gpu) {
  constexpr int before = 1, after = 2;
  const gpu::Stream writer = gpu.stream(), patient = gpu.stream(), hasty = gpu.stream();
  const gpu::DeviceMemory word = gpu.device_memory(1);
  const gpu::PinnedMemory values = gpu.pinned_memory(4);
  values[0] = before;
  values[1] = after;
  DriverEvent written(gpu.context), patient_read(gpu.context), hasty_read(gpu.context);

  gpu.copy_to_device(word, &values[0], sizeof(int), writer);
  written.record(writer);
  written.synchronize();

  gpu::Gate gate(gpu, writer);
  gpu.copy_to_device(word, &values[1], sizeof(int), writer);
  written.record(writer);

  written.wait(patient); // the stream waits, not this thread
  gpu.copy_to_host(&values[2], word, sizeof(int), patient);
  patient_read.record(patient);
  gpu.copy_to_host(&values[3], word, sizeof(int), hasty);
  hasty_read.record(hasty);

  const bool hasty_ran = hasty_read.synchronize_for(std::chrono::seconds(10));
  const bool patient_ran = patient_read.query();
  gate.open();
  patient_read.synchronize();
  hasty_read.synchronize();

  std::printf("\nThe writer is held back; it will write %d over %d\n", after, before);
  std::printf("  %-30s %-28s read %d\n", "reader that waits for its event",
              patient_ran ? "did NOT wait" : "ran after the writer", values[2]);
  std::printf("  %-30s %-28s read %d\n", "reader that does not",
              hasty_ran ? "ran immediately" : "did NOT run", values[3]);
  return hasty_ran && !patient_ran && values[2] == after && values[3] == before;
}

} // namespace

int main() try {
  const gpu::Gpu gpu;
  const int version = gpu.driver.version();
  std::printf("Running on %s, driver CUDA %d.%d%s\n", gpu.name().c_str(), version / 1000, version % 1000 / 10,
              gpu.simulated() ? ": no device, so all times are modelled, not measured" : "");
  const bool timed = time_stages(gpu);
  const bool ordered = order_streams(gpu);
  std::printf("\n%s\n", timed && ordered ? "All results are right." : "Some results are WRONG.");
  return timed && ordered ? 0 : 1;
} catch (const cuevent::DriverUnavailable& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 77;
} catch (const cuevent::DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
