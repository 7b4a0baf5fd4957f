// SPDX-License-Identifier: MIT
// Coroutines that wait for work on streams: `co_await queue.completion(stream)` resumes inside a poll() of
// the queue when the stream has completed the work submitted so far. A pipeline with three streams takes
// eight batches through three stages. One thread runs all coroutines.
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"

#include <cuevent/completion_queue.hpp>

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// A coroutine with a result. It starts immediately, and one other coroutine may await it. The thread that
/// polls the queue runs all coroutines, so there are no locks. If a task is destroyed early, its coroutine
/// runs to its end, because the queue still has the handle.
template <class Value>
class [[nodiscard]] Task {
public:
  struct promise_type {
    struct End {
      bool abandoned;
      bool await_ready() const noexcept { return abandoned; } // true: the coroutine destroys itself
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) const noexcept {
        return ended.promise().awaiting; // resumes the coroutine that awaits the result
      }
      void await_resume() const noexcept {}
    };

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    End final_suspend() const noexcept { return {abandoned}; }
    void return_value(Value result) { value = std::move(result); }
    void unhandled_exception() noexcept { error = std::current_exception(); }

    std::coroutine_handle<> awaiting = std::noop_coroutine();
    std::optional<Value> value{};
    std::exception_ptr error{};
    bool abandoned = false;
  };

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() {
    if (coroutine_ == nullptr) return;
    if (coroutine_.done()) {
      coroutine_.destroy();
    } else {
      coroutine_.promise().abandoned = true;
      coroutine_.promise().awaiting = std::noop_coroutine();
    }
  }

  bool done() const noexcept { return coroutine_.done(); }
  /// The result of a task that is done, or what it threw.
  Value get() {
    if (coroutine_.promise().error) std::rethrow_exception(coroutine_.promise().error);
    return std::move(*coroutine_.promise().value);
  }

  bool await_ready() const noexcept { return done(); }
  void await_suspend(std::coroutine_handle<> awaiting) noexcept { coroutine_.promise().awaiting = awaiting; }
  Value await_resume() { return get(); }

private:
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

constexpr std::size_t count = 1 << 18, bytes = count * sizeof(int); // of each batch: 1 MiB
constexpr std::size_t batches = 8;

/// Three stages, each on a stream of its own: while one batch computes, the next one is copied to the device.
struct Pipeline {
  const gpu::Gpu& gpu;
  cuevent::CompletionQueue& queue;
  gpu::Stream upload = gpu.stream(), compute = gpu.stream(), download = gpu.stream();
  gpu::BusyKernel kernel{gpu};
  /// For all batches, because cuMemFreeHost blocks while a stream of the context is busy.
  gpu::DeviceMemory device = gpu.device_memory(batches * count);
  gpu::PinnedMemory host = gpu.pinned_memory(batches * count);
  std::size_t in_flight = 0, most_in_flight = 0; // batches
};

void check(CUresult result) {
  if (result != CUDA_SUCCESS) cuevent::throw_error(result, "a stage of the pipeline");
}

/// Takes one batch through the pipeline. Returns whether what comes back is right.
Task<bool> batch(Pipeline& pipeline, std::size_t number) {
  const gpu::Gpu& gpu = pipeline.gpu;
  cuevent::CompletionQueue& queue = pipeline.queue;
  const CUdeviceptr device = pipeline.device + number * bytes;
  auto* const host = reinterpret_cast<unsigned char*>(pipeline.host + number * count);
  const auto before = static_cast<unsigned char>(0x10 * number),
             after = static_cast<unsigned char>(before + 1);
  pipeline.most_in_flight = std::max(pipeline.most_in_flight, ++pipeline.in_flight);

  std::fill_n(host, bytes, before);
  gpu.copy_to_device(device, host, bytes, pipeline.upload);
  check(co_await queue.completion(pipeline.upload)); // other batches go on meanwhile

  pipeline.kernel.launch(100us, pipeline.compute);
  gpu.fill(device, after, bytes / 2, pipeline.compute);
  check(co_await queue.completion(pipeline.compute));

  gpu.copy_to_host(host, device, bytes, pipeline.download);
  check(co_await queue.completion(pipeline.download));
  --pipeline.in_flight;
  const auto changed = std::count(host, host + bytes / 2, after);
  const auto kept = std::count(host + bytes / 2, host + bytes, before);
  co_return static_cast<std::size_t>(changed + kept) == bytes;
}

/// Starts all batches, and awaits one after another.
Task<std::size_t> all_batches(Pipeline& pipeline) {
  std::vector<Task<bool>> started;
  for (std::size_t i = 0; i < batches; ++i)
    started.push_back(batch(pipeline, i));
  std::size_t right = 0;
  for (Task<bool>& each : started) {
    const bool is_right = co_await each;
    right += is_right ? 1 : 0;
  }
  co_return right;
}

/// Returns the result with which the queue resumes it.
Task<CUresult> awaited(cuevent::CompletionQueue& queue, CUstream stream,
                       cuevent::CompletionToken* token = nullptr) {
  co_return co_await queue.completion(stream, token);
}

int run() {
  const gpu::Gpu gpu;
  std::printf("Running on %s\n", gpu.name().c_str());
  bool right = false;
  {
    cuevent::CompletionQueue queue(gpu.context);
    Pipeline pipeline{gpu, queue};
    Task<std::size_t> task = all_batches(pipeline);
    while (!task.done())
      queue.poll(); // in your event loop; it never blocks
    const std::size_t count_right = task.get();
    std::printf("%zu of %zu batches came back right; up to %zu were in the pipeline at once\n", count_right,
                batches, pipeline.most_in_flight);
    right = count_right == batches && pipeline.most_in_flight == batches;
  }

  std::optional<Task<CUresult>> unfinished;
  const gpu::Stream stream = gpu.stream();
  gpu::Gate gate(gpu, stream); // holds the stream back
  {
    cuevent::CompletionQueue queue(gpu.context);
    cuevent::CompletionToken token;
    Task<CUresult> cancelled = awaited(queue, stream, &token);
    unfinished = awaited(queue, stream);
    token.cancel(); // resumes this coroutine in the next poll, while its work stays pending
    queue.poll();
    right &= cancelled.done() && cancelled.get() == cuevent::CompletionToken::cancelled;
  } // resumes waiting coroutines with CUDA_ERROR_NOT_READY: the work has not finished
  right &= unfinished->done() && unfinished->get() == CUDA_ERROR_NOT_READY;
  if (!right) std::puts("Something is WRONG.");
  return right ? 0 : 1;
}

} // namespace

int main() { return exit_code(run); }
