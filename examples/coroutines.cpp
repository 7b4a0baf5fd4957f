// SPDX-License-Identifier: MIT
// Coroutines that wait for work on streams: `co_await queue.completion(stream)` resumes inside a poll() of
// the queue when the stream has completed the work submitted so far. One thread runs all coroutines.
#include "gpu.hpp"

#include <cuevent/completion_queue.hpp>

#include <algorithm>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

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

constexpr std::size_t count = 1 << 20; // ints: 4 MiB

/// Fills device memory, and returns how many bytes come back correct.
Task<int> filled(const gpu::Gpu& gpu, cuevent::CompletionQueue& queue, CUstream stream, unsigned char byte) {
  const gpu::DeviceMemory device = gpu.device_memory(count);
  const gpu::PinnedMemory host = gpu.pinned_memory(count);
  gpu.fill(device, byte, count * sizeof(int), stream);
  gpu.copy_to_host(host, device, count * sizeof(int), stream);

  const CUresult result = co_await queue.completion(stream); // other coroutines run meanwhile
  if (result != CUDA_SUCCESS) cuevent::throw_error(result, "filled");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(static_cast<const int*>(host));
  const auto right = std::count(bytes, bytes + count * sizeof(int), byte);
  co_return static_cast<int>(right);
}

/// Awaits other tasks, two of which run at the same time.
Task<bool> all_are_right(const gpu::Gpu& gpu, cuevent::CompletionQueue& queue, CUstream one, CUstream other) {
  Task<int> first = filled(gpu, queue, one, 0x11), second = filled(gpu, queue, other, 0x22);
  const int bytes = co_await first + co_await second;
  const int more = co_await filled(gpu, queue, one, 0x33);
  std::printf("%d and %d bytes came back right\n", bytes, more);
  co_return bytes == 2 * more&& more == static_cast<int>(count * sizeof(int));
}

/// Returns the result with which the queue resumes it.
Task<CUresult> awaited(cuevent::CompletionQueue& queue, CUstream stream) {
  co_return co_await queue.completion(stream);
}

} // namespace

int main() try {
  const gpu::Gpu gpu;
  std::printf("Running on %s\n", gpu.name().c_str());
  const gpu::Stream one = gpu.stream(), other = gpu.stream();
  bool right = false;
  {
    cuevent::CompletionQueue queue(gpu.context);
    Task<bool> task = all_are_right(gpu, queue, one, other);
    while (!task.done())
      queue.poll(); // in your event loop; it never blocks
    right = task.get();
  }

  std::optional<Task<CUresult>> unfinished;
  gpu::Gate gate(gpu, one); // holds the stream back
  {
    cuevent::CompletionQueue queue(gpu.context);
    unfinished = awaited(queue, one);
  } // resumes waiting coroutines with CUDA_ERROR_NOT_READY: the work has not finished
  right &= unfinished->done() && unfinished->get() == CUDA_ERROR_NOT_READY;
  if (!right) std::puts("Something is WRONG.");
  return right ? 0 : 1;
} catch (const cuevent::DriverUnavailable& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 77;
} catch (const cuevent::DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
