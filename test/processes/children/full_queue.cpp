// SPDX-License-Identifier: MIT
// A thread that is blocked on a full launch queue, and what other threads can still do.
#include "filler.hpp"
#include "scenario.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/retired_events.hpp>

#include <atomic>
#include <chrono>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace process {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

/// Whether a child can be forked, and can use the pools.
bool child_ends_pools(EventPools& pools) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20); // the child does not inherit the alarm
    pools.trim();
    pools = EventPools();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void full_queue() {
  const gpu::Gpu gpu;
  const gpu::Stream full = gpu.stream(), other = gpu.stream();
  const Kernel nothing(gpu, "step");

  // Every object here is made before the queue is full and destroyed after it.
  DriverEvent start(gpu.context, EventFlags::timing), end(gpu.context, EventFlags::timing),
      pending(gpu.context), again(gpu.context), given_away(gpu.context);
  auto flagged = std::make_unique<DriverEvent>(gpu.context, EventFlags::retire);
  auto in_scope = std::make_unique<DriverEvent>(gpu.context);
  DriverEvent overwritten(gpu.context);
  EventPool pool(gpu.context);
  pool.reserve(80);
  EventPools pools(gpu.driver);
  pools.reserve(gpu.context, 1);
  std::thread trimming;
  std::atomic<bool> trimmed{false};
  CompletionQueue queue(gpu.context);
  queue.reserve(8);
  // Loads the kernel in advance.
  nothing.launch(other);
  start.record(other);
  end.record(other);
  end.synchronize();
  {
    gpu::Gate gate(gpu, full);
    pending.record(full);
    const Filler filler(nothing, full);
    struct Opened { // opens the gate before the filler is joined
      gpu::Gate& gate;
      ~Opened() { gate.open(); }
    } const opened{gate};
    expect(filler.blocks(), "a stream takes a limited number of submissions");

    step("query of a pending event while a queue is full");
    expect(!pending.query(), "the gate is closed");
    expect(!pending.query_relaxed(), "the gate is closed");
    step("query of a finished event while a queue is full");
    expect(end.query(), "a finished event is finished");
    end.synchronize();
    step("synchronize_for while a queue is full");
    expect(!pending.synchronize_for(20ms), "the gate is closed");
    expect(end.synchronize_for(20ms), "a finished event is finished");
    step("elapsed_time while a queue is full");
    expect(start.elapsed_time(end).count() >= 0, "finished events have their times");
    step("record on another stream while a queue is full");
    again.record(other);
    step("wait on another stream while a queue is full");
    again.wait(other);
    end.record(other);
    expect(end.synchronize_for(20s), "another stream goes on");

    step("a completion queue while a launch queue is full");
    std::size_t ran = 0;
    const auto count = [&ran](CUresult result) { ran += result == CUDA_SUCCESS ? 1 : 0; };
    const CompletionLane lane = queue.lane(other);
    for (int i = 0; i < 4; ++i) {
      queue.when_complete(other, count);
      lane.when_complete(count);
      if (i == 0) static_cast<void>(queue.arm()); // it may be too early
    }
    while (ran < 8 && queue.wait_for(20s) != 0) {
    }
    expect(ran == 8, "the callbacks of another stream run");
    CompletionToken token;
    lane.when_complete([&ran](CUresult) { ++ran; }, &token);
    token.cancel();
    expect(queue.wait_for(20s) == 1 && ran == 9, "a callback runs, cancelled or not");

    step("a pool's events while a queue is full");
    const auto use_pool = [&] {
      std::vector<PooledEvent> leases(40);
      for (int round = 0; round < 5; ++round) {
        for (PooledEvent& lease : leases) {
          lease = pool.acquire();
          lease.record(other);
        }
        pool.wait_stream(other, other);
        expect(leases.back().synchronize_for(20s), "another stream goes on");
      }
    };
    use_pool();
    std::thread(use_pool).join();
    expect(pool.counters().created == 80, "what was reserved is enough");
    const auto keep_some = [&](auto keep_more) {
      // The thread keeps other events until the inner leases end.
      const PooledEvent first = pool.acquire();
      keep_more();
    };
    const auto in_thread = [](auto run) { std::thread(run).join(); };
    in_thread([&] {
      keep_some([&] {
        in_thread([&] {
          keep_some([&] {
            in_thread([&] {
              const std::vector<PooledEvent> leases = [&] {
                std::vector<PooledEvent> made;
                for (int i = 0; i < 78; ++i)
                  made.push_back(pool.acquire());
                return made;
              }();
            });
          });
        });
      });
    });
    expect(pool.counters().created == 80, "what was reserved is enough, also for three threads");

    step("the end of retired events while a queue is full");
    retire(std::move(given_away));
    flagged.reset();
    {
      const RetireScope scope;
      in_scope.reset();
      overwritten = DriverEvent();
    }

    step("a fork while a thread is blocked on the end of an event");
    trimming = std::thread([&] {
      pools.trim();
      trimmed = true;
    });
    std::this_thread::sleep_for(500ms);
    expect(!trimmed, "the end of an event blocks while a queue is full");
    expect(child_ends_pools(pools), "the process can fork, and the child can use the pools");
    expect(!pending.query(), "the gate is still closed");
    step("the end of a full queue");
  }
  trimming.join();
  pending.synchronize();
  expect(destroy_retired() == 4, "only the retired events are destroyed");
}

} // namespace

std::vector<Scenario> full_queue_scenarios() { return {{"full-queue", full_queue}}; }

} // namespace process
