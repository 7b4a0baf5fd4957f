// SPDX-License-Identifier: MIT
// Callbacks for completed work: when they run and on which thread.
#include "gate.hpp"
#include "stream.hpp"
#include "task.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/completion_queue.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

using Results = std::vector<CUresult>;

/// Words of host memory that streams write to.
class Words {
public:
  Words(const Context& context, std::size_t count)
      : context_(Context::borrow(context.native_handle(), test::unfailing_driver())) {
    const ContextGuard guard(context_);
    void* memory = nullptr;
    REQUIRE(call<PFN_cuMemHostAlloc_v2020>("cuMemHostAlloc", 2020)(&memory, count * sizeof(std::uint32_t),
                                                                   CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS);
    words_ = static_cast<std::uint32_t*>(memory);
    for (std::size_t i = 0; i < count; ++i)
      words_[i] = 0;
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  ~Words() {
    const ContextGuard guard(context_);
    const CUresult freed = call<PFN_cuMemFreeHost_v2000>("cuMemFreeHost", 2000)(words_);
    CHECK(freed == CUDA_SUCCESS);
  }

  /// Makes the stream write `value` when it reaches this point.
  CUresult write(std::size_t word, CUstream stream, std::uint32_t value) const {
    const auto address = reinterpret_cast<std::uintptr_t>(words_ + word);
    return write_(stream, static_cast<CUdeviceptr>(address), value, CU_STREAM_WRITE_VALUE_DEFAULT);
  }
  std::uint32_t read(std::size_t word) const { return __atomic_load_n(words_ + word, __ATOMIC_ACQUIRE); }

private:
  Context context_;
  std::uint32_t* words_ = nullptr;
  PFN_cuStreamWriteValue32_v11070 write_ =
      call<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32", 11070);
};

struct QueueFixture : Fixture {
  Results results;
  auto note() {
    return [this](CUresult result) { results.push_back(result); };
  }
  /// Polls until no callback is pending, for up to a minute.
  static bool drain(CompletionQueue& queue) {
    const auto deadline = std::chrono::steady_clock::now() + 1min;
    while (queue.pending() != 0 && std::chrono::steady_clock::now() < deadline)
      queue.poll();
    return queue.pending() == 0;
  }
};

} // namespace

TEST_CASE_METHOD(QueueFixture, "callbacks run in stream order once their work is complete") {
  const Stream held(context), free(context);
  const Words words(context, 2);
  std::vector<std::uint32_t> order;
  bool ran = false;
  CompletionQueue queue(context); // destroyed first, because its end runs pending callbacks
  {
    Gate gate(held);
    for (std::uint32_t i = 1; i <= 10; ++i) {
      REQUIRE(words.write(0, held, i) == CUDA_SUCCESS);
      queue.when_complete(held, [&, i](CUresult result) {
        results.push_back(result);
        if (words.read(0) >= i) order.push_back(i);
      });
    }
    REQUIRE(words.write(1, free, 1) == CUDA_SUCCESS);
    queue.when_complete(free, [&](CUresult result) { ran = result == CUDA_SUCCESS && words.read(1) == 1; });
    const auto deadline = std::chrono::steady_clock::now() + 1min;
    while (queue.pending() > 10 && std::chrono::steady_clock::now() < deadline)
      queue.poll();
    CHECK(ran);
    CHECK(queue.poll() == 0);
    CHECK(results.empty());
  }
  CHECK(drain(queue));
  CHECK(results == Results(10, CUDA_SUCCESS));
  CHECK(order == std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST_CASE_METHOD(QueueFixture, "a callback for a stream without work runs at once") {
  const Stream stream(context);
  CompletionQueue queue(context);
  queue.when_complete(stream, note());
  CHECK(drain(queue));
  CHECK(results == Results{CUDA_SUCCESS});
}

TEST_CASE_METHOD(QueueFixture, "the callbacks of a destroyed stream run and delay no later stream") {
  std::optional<Stream> destroyed(context);
  Results of_later;
  CompletionQueue queue(context);
  Gate gate(*destroyed);
  queue.when_complete(*destroyed, note());
  destroyed.reset();
  const Stream later(context); // may have the handle of the destroyed stream
  queue.when_complete(later, [&](CUresult result) { of_later.push_back(result); });
  const auto deadline = std::chrono::steady_clock::now() + 1min;
  while (of_later.empty() && std::chrono::steady_clock::now() < deadline)
    queue.poll();
  CHECK(of_later == Results{CUDA_SUCCESS});
  CHECK(results.empty());
  gate.open();
  CHECK(drain(queue));
  CHECK(results == Results{CUDA_SUCCESS});
}

TEST_CASE_METHOD(QueueFixture, "callbacks of lanes run in stream order, also with other submissions") {
  const Stream held(context), free(context);
  const Words words(context, 1);
  std::vector<std::uint32_t> order;
  std::optional<CUresult> ran;
  CompletionQueue queue(context);
  const CompletionQueue::Lane lane = queue.lane(held), other = queue.lane(free);
  {
    Gate gate(held);
    for (std::uint32_t i = 1; i <= 10; ++i) {
      REQUIRE(words.write(0, held, i) == CUDA_SUCCESS);
      const auto look = [&, i](CUresult result) {
        results.push_back(result);
        if (words.read(0) >= i) order.push_back(i);
      };
      if (i % 2 == 0)
        lane.when_complete(look);
      else
        queue.when_complete(held, look);
    }
    other.when_complete([&](CUresult result) { ran = result; });
    const auto deadline = std::chrono::steady_clock::now() + 1min;
    while (!ran && std::chrono::steady_clock::now() < deadline)
      queue.poll();
    CHECK(ran == CUDA_SUCCESS);
    CHECK(results.empty());
  }
  CHECK(drain(queue));
  CHECK(results == Results(10, CUDA_SUCCESS));
  CHECK(order == std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

namespace {

/// The work of each stream starts when the work of the previous stream is complete.
Task relay(CompletionQueue& queue, const Words& words, std::vector<CUstream> streams, Results& results) {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (words.write(i, streams[i], 1) != CUDA_SUCCESS) co_return;
    const CUresult result = co_await queue.completion(streams[i]);
    results.push_back(words.read(i) == 1 ? result : CUDA_ERROR_UNKNOWN);
  }
}

} // namespace

TEST_CASE_METHOD(QueueFixture, "a coroutine moves from stream to stream as their work completes") {
  const Stream first(context), second(context), third(context);
  const Words words(context, 3);
  CompletionQueue queue(context);
  {
    Gate gate(first);
    relay(queue, words, {first, second, third}, results);
    CHECK(queue.poll() == 0);
    CHECK(queue.pending() == 1);
    CHECK(results.empty());
  }
  CHECK(drain(queue));
  CHECK(results == Results(3, CUDA_SUCCESS));
}

TEST_CASE_METHOD(QueueFixture,
                 "sixteen threads submit and poll, and no callback runs before its work is done") {
  constexpr std::size_t submitters = 8, pollers = 8, each = 300;
  std::array<std::optional<Stream>, submitters> streams;
  for (auto& stream : streams)
    stream.emplace(context);
  const Words words(context, submitters);
  std::array<std::uint32_t, submitters> ran{}; // callbacks run, by stream
  std::atomic<std::size_t> wrong{0}, failed{0}, returned{0}, submitting{submitters};
  CompletionQueue queue(context);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < submitters; ++t)
    threads.emplace_back([&, t] {
      CUstream const stream = *streams[t];
      for (std::uint32_t i = 1; i <= each; ++i) {
        const auto look = [&words, &wrong, of = &ran[t], t, i](CUresult result) {
          if (result != CUDA_SUCCESS || words.read(t) < i || ++*of != i) ++wrong;
        };
        if (words.write(t, stream, i) != CUDA_SUCCESS ||
            queue.try_when_complete(stream, look) != CUDA_SUCCESS)
          ++failed;
      }
      --submitting;
    });
  const auto deadline = std::chrono::steady_clock::now() + 1min;
  for (std::size_t t = 0; t < pollers; ++t)
    threads.emplace_back([&] {
      while ((submitting != 0 || queue.pending() != 0) && std::chrono::steady_clock::now() < deadline)
        returned += queue.poll();
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(failed == 0);
  CHECK(returned == submitters * each);
}
