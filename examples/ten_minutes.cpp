// SPDX-License-Identifier: MIT
// The library in one program: two streams in order, events from a pool, a captured graph, a queue of
// callbacks, a semaphore, a time with its proof, and a refusal that says why.
#include "../support/gpu.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/measure.hpp>
#include <cuevent/text.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <thread>

using namespace cuevent;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t bytes = 64 << 20;
int failures = 0;

void expect(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "  " : "NO", what);
  if (!holds) ++failures;
}

} // namespace

int main() try {
  const gpu::Gpu gpu; // the device, its primary context, and a few driver functions
  const Context& context = gpu.context;
  const gpu::Stream copies = gpu.stream(), kernels = gpu.stream();
  const gpu::DeviceMemory memory = gpu.device_memory(bytes / sizeof(int));
  const auto work = [&](CUstream stream) { gpu.fill(memory, 0, bytes, stream); };

  // An event is made in a context, orders streams, and answers the host.
  DriverEvent copied(context);
  work(copies);
  copied.record(copies);
  copied.wait(kernels); // on the device: the host goes on
  work(kernels);
  copied.synchronize(); // on the host
  expect(copied.query(), "the copy is done");

  // A pool: its events are used again, and a lease may end while its work runs.
  EventPool pool(context);
  for (int i = 0; i < 100; ++i) {
    const PooledEvent step = pool.acquire();
    work(copies);
    step.record(copies);
    step.wait(kernels);
  }
  expect(pool.counters().created == 1, "100 leases needed one event");

  // A capture: the graph keeps what its nodes use. The host can ask for the external event.
  DriverEvent half(context);
  GraphExec exec;
  {
    StreamCapture capture(context, copies); // ends in each case, also if something throws
    work(copies);
    half.record(copies, RecordFlags::external);
    work(copies);
    exec = capture.end().instantiate();
  }
  exec.launch(copies);
  half.synchronize();
  expect(half.query(), "half of the graph is done");

  // A queue runs callbacks when work is complete. Its descriptor puts it into epoll or Asio.
  CompletionQueue queue(context);
  int completed = 0;
  for (CUstream stream : {CUstream(copies), CUstream(kernels)}) {
    work(stream);
    queue.when_complete(stream, [&completed](CUresult result) {
      if (result == CUDA_SUCCESS) ++completed;
    });
  }
  while (queue.pending() != 0)
    queue.wait_for(1s); // sleeps until something is complete
  expect(completed == 2, "both callbacks ran");

  // A semaphore: streams, threads and processes wait for a number, also before somebody signals it.
  TimelineSemaphore data(context);
  data.wait(kernels, 1, WaitOrder::before_signal); // the stream waits, and nobody has signalled yet
  work(kernels);
  std::thread producer([&data] { data.signal(1); });
  expect(!data.wait_for(2, 1ms), "nobody has signalled 2");
  producer.join();
  copied.record(kernels);
  expect(copied.synchronize_for(1min), "the signal of a thread released the stream");

  // A time with its proof: nothing escaped, and nothing else ran.
  const Measurement time = measure(context, copies, work);
  std::printf("   filling %zu MiB takes %s\n", bytes >> 20, to_string(time).c_str());

  // A refusal names its cause, and says what to do.
  try {
    static_cast<void>(copied.elapsed_time(half));
    expect(false, "an event without timing has no time");
  } catch (const TimingDisabled& error) {
    expect(error.result() == CUDA_ERROR_INVALID_HANDLE, error.what());
  }
  return failures == 0 ? 0 : 1;
} catch (const DriverUnavailable& error) {
  std::puts(error.what()); // no driver or device: says what to do
  return 77;
}
