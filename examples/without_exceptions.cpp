// SPDX-License-Identifier: MIT
// A runtime that is built with -fno-exceptions and -fno-rtti. One thread keeps up to two devices busy with a
// captured graph, and sleeps in epoll until one of them has completed a launch. Results stay CUresult inside,
// and become a std::error_code where the runtime returns to its caller.
#include <cuevent/capture.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/explain.hpp>
#include <cuevent/graph_exec.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <sys/epoll.h>
#include <system_error>
#include <unistd.h>

using namespace cuevent;

namespace {

constexpr int launches = 5;
constexpr std::size_t words = 1 << 20;

/// Driver functions of the runtime's own, from the driver that cuevent has loaded.
struct Calls {
  decltype(&cuStreamCreate) create_stream = nullptr;
  decltype(&cuMemAlloc) allocate = nullptr;
  decltype(&cuMemsetD32Async) fill = nullptr;

  CUresult load(const Driver& driver) {
    CUresult result = driver.try_entry_point(create_stream, "cuStreamCreate", 2000);
    if (result == CUDA_SUCCESS) result = driver.try_entry_point(allocate, "cuMemAlloc", 3020);
    return result == CUDA_SUCCESS ? driver.try_entry_point(fill, "cuMemsetD32Async", 3020) : result;
  }
};

class Device {
public:
  CUresult open(int ordinal, const Driver& driver, const Calls& calls, int epoll) {
    CUresult result = Context::try_primary(context_, ordinal, driver);
    if (result != CUDA_SUCCESS) return result;
    const ContextGuard guard(context_, result); // for the calls that are not cuevent's
    if (result == CUDA_SUCCESS) result = calls.create_stream(&compute_, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) result = calls.create_stream(&side_, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) result = calls.allocate(&memory_, 2 * words * sizeof(int));
    if (result == CUDA_SUCCESS) result = EventPool::try_create(pool_, context_);
    if (result == CUDA_SUCCESS) result = DriverEvent::try_create(half_, context_);
    if (result == CUDA_SUCCESS) result = CompletionQueue::try_create(queue_, context_);
    if (result == CUDA_SUCCESS) result = capture(calls);
    int wake = -1;
    if (result == CUDA_SUCCESS) result = queue_.try_native_handle(wake);
    epoll_event readable{};
    readable.events = EPOLLIN;
    if (result == CUDA_SUCCESS && epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &readable) != 0)
      result = CUDA_ERROR_OPERATING_SYSTEM;
    return result;
  }

  /// Launches the graph. Its completion launches it again, until it has run often enough.
  CUresult launch() {
    CUresult result = step_.try_launch(compute_);
    if (result != CUDA_SUCCESS) return result;
    return queue_.try_when_complete(compute_, [this](CUresult completed) {
      failure_ = completed;
      if (failure_ == CUDA_SUCCESS && ++completed_ < launches) failure_ = launch();
    });
  }

  /// False if callbacks are due or the queue failed, so that the thread must not sleep.
  bool can_sleep() { return completed_ == launches || queue_.try_arm() == CUDA_SUCCESS; }
  CUresult poll(bool& busy) {
    queue_.poll();
    busy = queue_.pending() != 0;
    // The external event tells how far the launch has got, before it is complete.
    if (busy && half_.try_query() == CUDA_SUCCESS) ++seen_half_done_;
    return failure_;
  }

  /// The text that an exception would have had: a result alone does not tell why.
  std::string why_no_wait(const Context& of_other) const {
    const CUresult result = half_.try_wait({of_other, nullptr});
    return explain_wait(result, half_, {of_other, nullptr});
  }

private:
  /// Two branches fill memory. After the first half, an event is recorded that the host can poll.
  CUresult capture(const Calls& calls) {
    StreamCapture capture;
    PooledEvent fork, join;
    Graph graph;
    CUresult result = pool_.try_acquire(fork);
    if (result == CUDA_SUCCESS) result = pool_.try_acquire(join);
    if (result == CUDA_SUCCESS) result = capture.try_begin(context_, compute_);
    if (result == CUDA_SUCCESS) result = fork.try_record(compute_);
    if (result == CUDA_SUCCESS) result = fork.try_wait(side_);
    if (result == CUDA_SUCCESS) result = calls.fill(memory_, 1, words, compute_);
    if (result == CUDA_SUCCESS) result = half_.try_record(compute_, RecordFlags::external);
    if (result == CUDA_SUCCESS) result = calls.fill(memory_ + words * sizeof(int), 2, words, side_);
    if (result == CUDA_SUCCESS) result = join.try_record(side_);
    if (result == CUDA_SUCCESS) result = join.try_wait(compute_);
    if (result == CUDA_SUCCESS) result = capture.try_end(graph); // else the destructor ends the capture
    return result == CUDA_SUCCESS ? graph.try_instantiate(step_) : result;
  }

  Context context_;
  CUstream compute_ = nullptr, side_ = nullptr; // these and the memory end with the process
  CUdeviceptr memory_ = 0;
  EventPool pool_;
  DriverEvent half_;
  GraphExec step_;
  CompletionQueue queue_;
  CUresult failure_ = CUDA_SUCCESS;
  int completed_ = 0;
  int seen_half_done_ = 0;
};

CUresult run_devices(const Driver& driver, int epoll) {
  Calls calls;
  CUresult result = calls.load(driver);
  std::array<Device, 2> devices;
  std::size_t count = 0;
  for (; result == CUDA_SUCCESS && count < devices.size(); ++count) {
    result = devices[count].open(static_cast<int>(count), driver, calls, epoll);
    if (result == CUDA_ERROR_INVALID_DEVICE && count > 0) { // this machine has one device
      result = CUDA_SUCCESS;
      break;
    }
    if (result == CUDA_SUCCESS) result = devices[count].launch();
  }
  for (bool busy = true; busy && result == CUDA_SUCCESS;) {
    bool sleep = true;
    for (std::size_t i = 0; i < count; ++i)
      sleep = devices[i].can_sleep() && sleep;
    epoll_event ready{};
    if (epoll_wait(epoll, &ready, 1, sleep ? -1 : 0) < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    busy = false;
    for (std::size_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
      bool its_busy = false;
      result = devices[i].poll(its_busy);
      busy = busy || its_busy;
    }
  }
  if (result == CUDA_SUCCESS)
    std::printf("%d launches on each of %zu devices\n%s\n", launches, count,
                devices[0].why_no_wait(Context()).c_str());
  return result;
}

/// The edge of the runtime: its callers know std::error_code, not the driver.
std::error_code run() {
  Driver driver;
  CUresult result = Driver::try_load(driver);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (result == CUDA_SUCCESS) result = run_devices(driver, epoll);
  close(epoll);
  return make_error_code(result);
}

} // namespace

int main() {
  const std::error_code failure = run();
  if (!failure) return 0;
  std::fprintf(stderr, "without_exceptions: %s\n", failure.message().c_str());
  return failure == ErrorKind::driver_unavailable ? 77 : 1;
}
