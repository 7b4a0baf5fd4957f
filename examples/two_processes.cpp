// SPDX-License-Identifier: MIT
// A producer fills buffers and a consumer in another process reads
// them, on one GPU. Two buffers take turns. The processes wait for each other on the device: no
// host is in the loop.
//
// The buffers are host memory here, so that the example also runs on the simulated driver. Device
// memory of cuIpcGetMemHandle or of an exported allocation is used in the same way.
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"
#include "../support/second_process.hpp"
#include "../support/shared_memory.hpp"

#include <cuevent/timeline_semaphore.hpp>

#include <chrono>
#include <cstdio>

using cuevent::TimelineSemaphore;
using cuevent::WaitOrder;

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t frames = 1000;
constexpr std::size_t buffer_bytes = 64 << 10;

/// What the consumer inherits, in this order.
enum : int { filled_handle = SecondProcess::first_descriptor, read_handle, buffers_handle };

CUdeviceptr buffer(const gpu::SharedMemory& buffers, std::uint64_t frame) {
  return buffers.address() + frame % 2 * buffer_bytes;
}

int produce(const std::string& program) {
  const gpu::Gpu gpu;
  const int memory = gpu::SharedMemory::create(2 * buffer_bytes);
  const gpu::SharedMemory buffers(gpu, memory, 2 * buffer_bytes);
  TimelineSemaphore filled(gpu.context); // the newest frame that is filled
  TimelineSemaphore read(gpu.context);   // the newest frame that is read
  SecondProcess consumer(program, "consume", {filled.export_handle(), read.export_handle(), memory});
  filled.abandon_on_death(); // if the consumer dies, no stream waits forever
  read.abandon_on_death();

  const gpu::Stream stream = gpu.stream();
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t frame = 1; frame <= frames; ++frame) {
    if (frame > 2) read.wait(stream, frame - 2, WaitOrder::before_signal); // the buffer is free again
    gpu.fill(buffer(buffers, frame), static_cast<unsigned char>(frame), buffer_bytes, stream);
    filled.signal(stream, frame);
  }
  if (!read.wait_for(frames, 20s)) {
    std::fprintf(stderr, "only %d frames were read\n", static_cast<int>(read.value()));
    read.abandon();
    return 1;
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  std::printf("%d frames were handed over, one every %.1f us\n", static_cast<int>(frames),
              time.count() / static_cast<double>(frames));
  return consumer.wait() == "exited with 0" ? 0 : 1;
}

int consume() {
  const gpu::Gpu gpu;
  const gpu::SharedMemory buffers(gpu, buffers_handle, 2 * buffer_bytes);
  TimelineSemaphore filled = TimelineSemaphore::import(gpu.context, filled_handle);
  TimelineSemaphore read = TimelineSemaphore::import(gpu.context, read_handle);
  filled.abandon_on_death();
  read.abandon_on_death();

  const gpu::PinnedMemory seen = gpu.pinned_memory(frames);
  const gpu::Stream stream = gpu.stream();
  for (std::uint64_t frame = 1; frame <= frames; ++frame) {
    filled.wait(stream, frame, WaitOrder::before_signal);
    gpu.copy_to_host(seen + frame - 1, buffer(buffers, frame), sizeof(int), stream);
    read.signal(stream, frame);
  }
  if (!read.wait_for(frames, 20s)) return 1;
  int wrong = 0;
  for (std::uint64_t frame = 1; frame <= frames; ++frame)
    wrong += static_cast<unsigned>(seen[frame - 1]) != 0x01010101U * (frame & 0xff);
  if (wrong != 0) std::fprintf(stderr, "%d frames were read before they were filled\n", wrong);
  return wrong == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  return exit_code([&] { return argc > 1 ? consume() : produce(argv[0]); });
}
