// SPDX-License-Identifier: MIT
// The child of a process that has initialized the driver inherits objects, but no driver.
#include "belongings.hpp"
#include "scenario.hpp"
#include "watched_driver.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/timeline_semaphore.hpp>
#include <gpu.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace process {

namespace {

using namespace cuevent;
using std::chrono::milliseconds;

template <class Call>
void expect_refused(Call call, const std::string& what) {
  expect_throw<NotInitialized>(call, what, [](const NotInitialized& error) {
    expect(std::strstr(error.what(), "fork") != nullptr,
           std::string("a word of the fork in ") + error.what());
  });
}

void expect_refused(CUresult result, const char* what) {
  expect(result == CUDA_ERROR_NOT_INITIALIZED,
         what + std::string(" is refused, and not with ") + std::to_string(static_cast<int>(result)));
}

void use_throws(Belongings& inherited) {
  DriverEvent& event = inherited.event;
  const Driver& driver = inherited.primary.driver();
  expect_refused([&] { DriverEvent made(inherited.primary); }, "making an event");
  expect_refused([&] { event.record(nullptr); }, "record");
  expect_refused([&] { event.wait(nullptr); }, "wait");
  expect_refused([&] { return event.query(); }, "query");
  expect_refused([&] { return event.query_relaxed(); }, "query_relaxed");
  expect_refused([&] { event.synchronize(); }, "synchronize");
  expect_refused([&] { return event.synchronize_for(milliseconds(1)); }, "synchronize_for");
  expect_refused([&] { inherited.start.elapsed_time(event); }, "elapsed_time");
  expect_refused([&] { inherited.of_created.close(); }, "close");
  expect(!inherited.of_created, "a closed event is empty");
  expect_refused([&] { Context::primary(0, driver); }, "Context::primary");
  expect_refused([&] { Context::create(0, driver); }, "Context::create");
  expect_refused([&] { Context::current(driver); }, "Context::current");
  expect_refused([&] { ContextGuard guard(inherited.primary); }, "ContextGuard");
  expect_refused([&] { Graph graph(inherited.primary); }, "making a graph");
  expect_refused([&] { inherited.graph.instantiate(); }, "instantiate");
  expect_refused([&] { inherited.exec.launch(nullptr); }, "launch");
  expect_refused([&] { inherited.recorder.report(); }, "report");
  expect_refused([&] { inherited.recorder.mark(nullptr, "mark"); }, "mark");
  expect_refused([&] { inherited.recorder.record(event, nullptr); }, "record of a recorder");
}

void twins_return(Belongings& inherited) {
  DriverEvent& event = inherited.event;
  const Driver& driver = inherited.primary.driver();
  DriverEvent made;
  Context context;
  DriverEvent::Milliseconds time;
  expect_refused(DriverEvent::try_create(made, inherited.primary), "try_create");
  expect_refused(event.try_record(nullptr), "try_record");
  expect_refused(event.try_wait(nullptr), "try_wait");
  expect_refused(event.try_query(), "try_query");
  expect_refused(event.try_query_relaxed(), "try_query_relaxed");
  expect_refused(event.try_synchronize(), "try_synchronize");
  expect_refused(event.try_synchronize_for(milliseconds(1)), "try_synchronize_for");
  expect_refused(inherited.start.try_elapsed_time(time, event), "try_elapsed_time");
  expect_refused(inherited.spare.try_close(), "try_close");
  expect(!inherited.spare, "an event closed by try_close is empty");
  expect_refused(Context::try_primary(context, 0, driver), "try_primary");
  expect_refused(Context::try_create(context, 0, driver), "try_create of a context");
  expect_refused(Context::try_current(context, driver), "try_current");
  FlightReport report;
  expect_refused(inherited.recorder.try_report(report), "try_report");
  expect_refused(inherited.recorder.try_mark(nullptr, "mark"), "try_mark");
}

/// Forks, runs `run` in the child, and returns the child's exit code. The child exits like any process.
template <class Run>
int in_child(Run run) {
  step("a forked child");
  const pid_t child = fork();
  if (child == 0) {
    alarm(20); // the child does not inherit the alarm
    run();
    std::exit(disappointed());
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child exits, and is not killed");
  return WEXITSTATUS(status);
}

void after_init(Belongings& belongings, void (*before_use)()) {
  expect(in_child([&] {
           before_use();
           step("a use of the driver in a forked child");
           use_throws(belongings);
           twins_return(belongings);
           const DriverEvent destroyed_here = std::move(belongings.start);
           const GraphExec gone_too = std::move(belongings.exec);
           expect(destroy_retired() > 0, "the child can destroy the events that its parent retired");
         }) == 0,
         "the child exits with 0");

  step("a use of the driver after a fork");
  belongings.event.record(nullptr);
  belongings.event.synchronize();
  expect(belongings.event.query(), "the parent continues to work");
  expect(belongings.start.elapsed_time(belongings.event).count() >= 0, "its events still have their times");
  DriverEvent(belongings.primary).record(nullptr);
}

void fork_after_init() {
  static Belongings belongings(Driver::instance());
  after_init(belongings, [] {
    // Loading the driver once more does not help either.
    expect_refused([] { Driver again(driver_library()); }, "loading the driver");
    expect_refused([] { Driver::instance().entry_point<PFN_cuInit_v2000>("cuInit", 2000); }, "entry_point");
    Driver again;
    expect_refused(Driver::try_load(again, driver_library().c_str()), "try_load");
  });
}

/// The child must not make the call at all.
void fork_after_init_watched() {
  static Belongings belongings(watched_driver());
  after_init(belongings, forbid_calls);
}

/// Holds wherever the poll of the other thread is when the process forks.
void fork_while_polling() {
  const gpu::Gpu gpu;
  const gpu::Stream held = gpu.stream(), moving = gpu.stream();
  constexpr std::size_t count = 20;
  CompletionQueue queue(gpu.context);
  queue.reserve(count + 1);
  std::vector<std::vector<CUresult>> results(count);
  std::atomic<bool> stop{false};
  std::thread poller;
  {
    gpu::Gate gate(gpu, held);
    for (std::vector<CUresult>& its : results)
      queue.when_complete(held, [&its](CUresult result) { its.push_back(result); });
    poller = std::thread([&] {
      while (!stop) {
        queue.when_complete(moving, [](CUresult) {});
        queue.poll();
      }
    });
    for (int i = 0; i < 20; ++i)
      expect(in_child([&] {
               step("polls in a forked child");
               if (i % 2 == 0)
                 while (queue.pending() != 0)
                   queue.poll();
               queue = CompletionQueue(); // runs the callbacks that no poll has run
               for (const std::vector<CUresult>& its : results)
                 expect(its == std::vector{CUDA_ERROR_NOT_INITIALIZED},
                        "each callback runs once in the child");
             }) == 0,
             "the child exits with 0");
  }
  step("polls in the parent");
  stop = true;
  poller.join();
  while (queue.pending() != 0)
    queue.poll();
  for (const std::vector<CUresult>& its : results)
    expect(its == std::vector{CUDA_SUCCESS}, "each callback runs once in the parent");
}

/// Holds wherever the other thread is in a signal when the process forks.
void fork_while_signalling() {
  const gpu::Gpu gpu;
  const gpu::Stream held = gpu.stream(), moving = gpu.stream();
  TimelineSemaphore semaphore(gpu.context);
  gpu::Gate gate(gpu, held);
  constexpr std::uint64_t last = 1'000'000;
  for (std::uint64_t value = last; value < last + 400; ++value)
    semaphore.signal(held, value);
  std::atomic<bool> stop{false};
  std::thread signaller([&] {
    for (std::uint64_t value = 1; !stop; ++value) {
      static_cast<void>(semaphore.try_signal(moving, value));
      static_cast<void>(semaphore.try_signal(last + 400)); // refused
      if (value % 100 == 0) static_cast<void>(semaphore.try_wait_for(value, std::chrono::seconds(1)));
    }
  });
  for (int i = 0; i < 40; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 37 * i));
    expect(in_child([&] {
             step("signals in a forked child");
             expect_refused(semaphore.try_signal(held, last + 400), "signal");
             expect(semaphore.try_signal(last + 400) == CUDA_ERROR_INVALID_VALUE, "400 signals are pending");
             semaphore = TimelineSemaphore();
           }) == 0,
           "the child exits with 0");
  }
  stop = true;
  signaller.join();
}

void fork_before_init() {
  const auto use = [] {
    const Context context = Context::primary(0);
    DriverEvent event(context);
    event.record(nullptr);
    event.synchronize();
  };
  expect(in_child(use) == 0, "the child uses the driver");
  use();
}

} // namespace

std::vector<Scenario> fork_scenarios() {
  return {{"fork-after-init", fork_after_init},
          {"fork-after-init-watched", fork_after_init_watched},
          {"fork-while-polling", fork_while_polling},
          {"fork-while-signalling", fork_while_signalling},
          {"fork-before-init", fork_before_init}};
}

} // namespace process
