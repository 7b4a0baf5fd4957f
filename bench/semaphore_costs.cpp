// SPDX-License-Identifier: MIT
// What semaphores and fences cost the host, in one process. `semaphore_costs 20` divides all counts by 20.
// CUEVENT_DRIVER can name the simulated driver, which only shows that it works.
#include <exit_code.hpp>
#include <gpu.hpp>

#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace cuevent;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// `submit` submits a signal, and returns what `waiting` then waits for.
template <class Waiting, class Submit>
void submit_many(const char* what, int divisor, const Waiting& waiting, Submit submit) {
  constexpr int batch = 256; // fewer than a launch queue has places
  const int batches = std::max(1, 400 / divisor);
  double submitting = 0;
  for (int i = 0; i < batches; ++i) {
    const auto start = Clock::now();
    std::uint64_t last = 0;
    for (int each = 0; each < batch; ++each)
      last = submit();
    submitting += microseconds(Clock::now() - start);
    if (!waiting.wait_for(last, 20s)) throw std::runtime_error("the stream does not signal");
  }
  std::printf("%s: %.0f ns\n", what, 1000 * submitting / (batch * batches));
}

/// What it takes to make many, and to destroy them. Nobody has signalled them.
template <class Make>
void make_many(const char* what, int count, Make make) {
  std::vector<decltype(make())> made;
  made.reserve(static_cast<std::size_t>(count));
  auto start = Clock::now();
  for (int i = 0; i < count; ++i)
    made.push_back(make());
  const double making = microseconds(Clock::now() - start) / count;
  start = Clock::now();
  made.clear();
  std::printf("%s: made in %.2f us, destroyed in %.2f us\n", what, making,
              microseconds(Clock::now() - start) / count);
}

int measure(int divisor) {
  const gpu::Gpu gpu;
  std::printf("%s, driver %d\n", gpu.name().c_str(), gpu.driver.version());
  TimelineSemaphore semaphore(gpu.context);
  for (const int threads : {1, 4, 16}) {
    const int loads = 20'000'000 / divisor;
    std::vector<std::thread> running;
    running.reserve(static_cast<std::size_t>(threads));
    std::vector<double> each(static_cast<std::size_t>(threads));
    for (double& time : each)
      running.emplace_back([&time, &semaphore, loads] {
        const auto start = Clock::now();
        std::uint64_t reached = 0;
        for (int i = 0; i < loads; ++i)
          reached += semaphore.reached(1) ? 1U : 0U;
        time = reached == 0 ? 1000 * microseconds(Clock::now() - start) / loads : -1;
      });
    for (std::thread& thread : running)
      thread.join();
    double sum = 0;
    for (const double time : each)
      sum += time;
    std::printf("value(), %2d threads: %.2f ns\n", threads, sum / threads);
  }
  std::uint64_t value = 0;
  const int signals = 1'000'000 / divisor;
  auto start = Clock::now();
  for (int i = 0; i < signals; ++i)
    semaphore.signal(++value);
  std::printf("signal by the host: %.0f ns\n", 1000 * microseconds(Clock::now() - start) / signals);
  const gpu::Stream stream = gpu.stream();
  submit_many("signal on a stream, on the host", divisor, semaphore, [&] {
    semaphore.signal(stream, ++value);
    return value;
  });
  TimelineFence fence(gpu.context, stream);
  submit_many("signal of a fence, on the host", divisor, fence, [&] { return fence.signal(); });
  make_many("a fence", 500, [&] { return TimelineFence(gpu.context, stream); });
  make_many("a semaphore", 500, [&] { return TimelineSemaphore(gpu.context); });
  return 0;
}

} // namespace

int main(int count, char** arguments) {
  alarm(60); // a hang must not hold the device
  return exit_code([&] { return measure(count > 1 ? std::max(1, std::atoi(arguments[1])) : 1); });
}
