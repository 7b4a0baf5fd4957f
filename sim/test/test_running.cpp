// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

#include <atomic>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

namespace {

const sim::Options running{.mode = sim::Mode::running};

struct Gate {
  std::atomic<bool> open{false};
  static void wait(void* self) {
    while (!static_cast<Gate*>(self)->open)
      std::this_thread::yield();
  }
};

} // namespace

TEST_CASE("work progresses by itself in running mode while the program only reads memory") {
  Fixture f(running);
  void* pinned = nullptr;
  OK(f.cu.host_allocate(&pinned, 4, 0));
  auto* const word = static_cast<unsigned*>(pinned);
  *word = 0;
  OK(f.work(f.stream));
  OK(f.cu.write_value_32(f.stream, reinterpret_cast<CUdeviceptr>(pinned), 1, 0));
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 1)
    std::this_thread::yield();
  OK(f.cu.stream_synchronize(f.stream));
}

TEST_CASE("a host function holds its stream in running mode until it returns") {
  Fixture f(running);
  Gate gate;
  const CUevent e = f.event();
  OK(f.cu.host_function(f.stream, Gate::wait, &gate));
  OK(f.cu.event_record(e, f.stream));
  CHECK(f.cu.event_query(e) == CUDA_ERROR_NOT_READY);
  std::thread opener([&] {
    std::this_thread::sleep_for(5ms);
    gate.open = true;
  });
  CHECK(f.cu.event_synchronize(e) == CUDA_SUCCESS);
  CHECK(gate.open);
  opener.join();
}

TEST_CASE("a host function holds its stream in stepped mode until it returns") {
  Fixture f;
  Gate gate;
  const CUevent e = f.event();
  OK(f.cu.host_function(f.stream, Gate::wait, &gate));
  OK(f.cu.event_record(e, f.stream));
  sim::advance(1s);
  CHECK(f.cu.event_query(e) == CUDA_ERROR_NOT_READY);
  gate.open = true;
  CHECK(f.cu.event_synchronize(e) == CUDA_SUCCESS);
}

TEST_CASE("a full launch queue blocks only its own thread and creation and destruction on others") {
  Fixture f({.mode = sim::Mode::running, .queue_limit = 16});
  Gate gate;
  const CUevent e = f.event(), spare = f.event();
  const CUstream other = f.new_stream();
  OK(f.cu.host_function(f.stream, Gate::wait, &gate));
  std::atomic<int> submitted{0}, created{0};
  std::thread full([&] {
    for (int i = 0; i < 32; ++i) {
      f.cu.event_record(spare, f.stream);
      ++submitted;
    }
  });
  while (submitted < 16)
    std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  CHECK(submitted == 16);
  std::thread creator([&] {
    f.cu.context_push(f.context);
    CUevent made = nullptr;
    f.cu.event_create(&made, 0);
    ++created;
    f.cu.event_destroy(made);
  });
  std::this_thread::sleep_for(20ms);
  CHECK(created == 0);
  CHECK(f.cu.event_query(e) == CUDA_SUCCESS);
  CHECK(f.cu.event_record(e, other) == CUDA_SUCCESS);
  CHECK(f.cu.stream_wait(other, e, 0) == CUDA_SUCCESS);
  CHECK(f.cu.event_synchronize(e) == CUDA_SUCCESS);
  gate.open = true;
  full.join();
  creator.join();
  CHECK(created == 1);
  OK(f.cu.stream_synchronize(f.stream));
}

TEST_CASE("timed records and memory operations fill a launch queue; untimed records, waits and host "
          "functions do not") {
  Fixture f({.patience = 0ms, .queue_limit = 8});
  const CUevent timed = f.event(), untimed = f.event(CU_EVENT_DISABLE_TIMING), never_done = f.event();
  const CUstream other = f.new_stream();
  void* pinned = nullptr;
  OK(f.cu.host_allocate(&pinned, 4, 0));
  sim::hold(f.stream);
  sim::hold(other);
  OK(f.cu.event_record(never_done, other));
  for (int i = 0; i < 100; ++i) {
    OK(f.cu.event_record(untimed, f.stream));
    OK(f.cu.stream_wait(f.stream, never_done, 0));
    OK(f.cu.host_function(
        f.stream, [](void*) {}, nullptr));
  }
  for (int i = 0; i < 4; ++i) {
    OK(f.cu.event_record(timed, f.stream));
    OK(f.cu.write_value_32(f.stream, reinterpret_cast<CUdeviceptr>(pinned), 1, 0));
  }
  CHECK(sim::pending(f.stream) == 308);
  sim::release(other);
  sim::release(f.stream); // otherwise the next submission would never return
  OK(f.cu.event_record(timed, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  for (const bool fills : {true, false}) {
    const Death death = death_of([fills] {
      Fixture g({.patience = 0ms, .queue_limit = 8});
      const CUevent e = g.event(fills ? 0 : CU_EVENT_DISABLE_TIMING);
      sim::hold(g.stream);
      for (int i = 0; i < 9; ++i)
        g.cu.event_record(e, g.stream);
    });
    CHECK(death.aborted == fills);
  }
}

TEST_CASE("many threads can each use their own event and stream in running mode") {
  Fixture f(running);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      f.cu.context_push(f.context);
      CUstream stream = nullptr;
      CUevent event = nullptr;
      failures += f.cu.stream_create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
      failures += f.cu.event_create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
      for (int i = 0; i < 100; ++i) {
        failures += f.work(stream) != CUDA_SUCCESS;
        failures += f.cu.event_record(event, stream) != CUDA_SUCCESS;
        failures += f.cu.stream_wait(f.stream, event, 0) != CUDA_SUCCESS;
        if (i % 10 == 0) failures += f.cu.event_synchronize(event) != CUDA_SUCCESS;
      }
      failures += f.cu.stream_synchronize(stream) != CUDA_SUCCESS;
      failures += f.cu.event_destroy(event) != CUDA_SUCCESS;
      failures += f.cu.stream_destroy(stream) != CUDA_SUCCESS;
    });
  }
  for (auto& thread : threads)
    thread.join();
  CHECK(failures == 0);
  CHECK(f.cu.stream_synchronize(f.stream) == CUDA_SUCCESS);
}

TEST_CASE("a random schedule keeps the order of each stream and of events") {
  bool seen_first = false, seen_second = false;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    Fixture f({.random_order = seed});
    const CUstream a = f.new_stream(), b = f.new_stream(), after = f.new_stream();
    const CUevent on_a = f.event(), on_b = f.event(), last = f.event();
    OK(f.work(a));
    OK(f.cu.event_record(on_a, a));
    OK(f.work(b));
    OK(f.cu.event_record(on_b, b));
    OK(f.cu.stream_wait(after, on_a, 0));
    OK(f.cu.stream_wait(after, on_b, 0));
    OK(f.cu.event_record(last, after));
    OK(f.cu.event_synchronize(last));
    float ms = 0;
    OK(f.cu.event_elapsed(&ms, on_a, on_b));
    (ms < 0 ? seen_first : seen_second) = true;
    OK(f.cu.event_elapsed(&ms, on_a, last));
    CHECK(ms >= 0);
    OK(f.cu.event_elapsed(&ms, on_b, last));
    CHECK(ms >= 0);
  }
  CHECK(seen_first);
  CHECK(seen_second);
}
