// SPDX-License-Identifier: MIT
// Moves, threads, and calls and allocations that fail.
#include "situations.hpp"

#include "../processes/children/scenario.hpp"
#include "allocations.hpp"
#include "driver_under_test.hpp"
#include "faults.hpp"

#include <cuevent/retired_events.hpp>
#include <cuevent/text.hpp>

#include <chrono>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <thread>

namespace situations {

namespace {

using namespace cuevent;
using process::expect;

const char* needs_moves(const Class& row) {
  return row.scoped ? "it belongs to a scope, and is never empty" : nullptr;
}

void moved_from_and_empty(const Class& row) {
  World w(World::primary());
  const auto subject = row.make(w);
  if (subject->can_move()) {
    subject->move_away([&] { subject->check_all(In::empty); });
    subject->check_all(In::working); // it is the object that was moved away
  }
  if (subject->can_be_empty()) {
    subject->make_empty();
    subject->check_all(In::empty);
  }
}

void thread_ends(const Class& row) {
  World w(World::primary());
  std::unique_ptr<Subject> made_by_thread;
  {
    const auto used_by_thread = row.scoped ? nullptr : row.make(w);
    std::thread([&] {
      if (used_by_thread != nullptr) used_by_thread->check_all(In::working);
      made_by_thread = row.make(w);
      made_by_thread->check_all(In::working);
      if (row.scoped) made_by_thread.reset();
    }).join();
    if (used_by_thread != nullptr) used_by_thread->check_all(In::working);
  }
  if (made_by_thread != nullptr) made_by_thread->check_all(In::working);
  std::thread([&] { made_by_thread.reset(); }).join();
}

/// Counts what is left behind.
void leaves_nothing(const std::function<void()>& run) {
  destroy_retired();
  const test::LiveHandles before = test::live_handles();
  run();
  test::LiveHandles after = test::live_handles();
  // The driver ends what a graph kept when it likes.
  for (int i = 0; i < 1'000 && after.events != before.events; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    destroy_retired();
    after = test::live_handles();
  }
  expect(after.events == before.events, "no event is left behind");
  expect(after.streams == before.streams, "no stream is left behind");
  expect(after.graphs == before.graphs && after.graph_execs == before.graph_execs, "no graph is left behind");
  expect(after.contexts == before.contexts && after.primary_retains == before.primary_retains,
         "no context is left behind");
}

/// Runs each overload with each failure in turn, and less often after the tenth, until it runs without.
/// `run_failing(k, throwing, usual)` returns whether there was a k-th failure.
template <class RunFailing>
void fail_each(const Operation& operation, RunFailing run_failing) {
  const Answer usual = operation.expected(In::working);
  if (usual.not_called != nullptr) return;
  for (const bool throwing : {false, true}) {
    if (throwing ? !operation.call : !operation.attempt) continue;
    for (int k = 1; run_failing(k, throwing, usual); k += 1 + k / 10)
      check(operation, usual); // it works again
  }
}

void an_allocation_fails(const Class& row) {
  World w(World::primary());
  leaves_nothing([&] {
    const auto subject = row.make(w);
    for (const Operation& operation : subject->operations()) {
      check(operation, operation.expected(In::working)); // the first use of a stream may allocate for good
      fail_each(operation, [&](int k, bool throwing, const Answer& usual) {
        process::step(operation.name);
        CUresult result = CUDA_SUCCESS;
        bool happened = false;
        {
          const test::FailingAllocation failing(static_cast<std::size_t>(k));
          result = result_of(operation, throwing);
          happened = test::FailingAllocation::happened();
        }
        expect(result == CUDA_ERROR_OUT_OF_MEMORY || result == usual.result || result == CUDA_ERROR_NOT_READY,
               std::string(operation.name) + " is out of memory, and not " + to_string(result));
        return happened;
      });
    }
  });
  take_reports(); // a retired event leaks, and says so
}

void a_driver_call_fails(const Class& row) {
  World w(World::primary());
  for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE})
    leaves_nothing([&] {
      const auto subject = row.make(w);
      for (const Operation& operation : subject->operations())
        fail_each(operation, [&](int k, bool throwing, const Answer& usual) {
          process::step(operation.name);
          test::FaultPlan plan({.result = fault, .call = k, .spared = "cuCtxGetId"});
          CUresult result = CUDA_SUCCESS;
          {
            const test::FaultScope scope(plan);
            result = result_of(operation, throwing);
          }
          expect(result == fault || result == usual.result || result == CUDA_ERROR_NOT_READY ||
                     result == plan.refusal(),
                 std::string(operation.name) + " fails as " + std::string(plan.struck()) + ", and not with " +
                     to_string(result));
          return !plan.struck().empty();
        });
    });
  take_reports(); // destructors report the faults
}

/// Makes an object and runs each operation as the first ones of their kind in this process. Returns whether
/// the k-th allocation of all that was there to fail.
bool first_use(const Class& row, World& w, int k) {
  std::unique_ptr<Subject> subject;
  const auto is_expected = [&](CUresult result, CUresult usual, const char* name) {
    const test::SafeAllocations safe;
    expect(result == CUDA_ERROR_OUT_OF_MEMORY || result == usual || result == CUDA_ERROR_NOT_READY,
           std::string(name) + " is out of memory, and not " + to_string(result));
  };
  const Operation make("the constructor", Does::makes, {}, [&] { subject = row.make(w); });
  const test::FailingAllocation failing(static_cast<std::size_t>(k));
  process::step(make.name);
  is_expected(result_of(make, true), CUDA_SUCCESS, make.name);
  if (subject != nullptr) {
    const auto operations = [&] {
      const test::SafeAllocations safe;
      return subject->operations();
    }();
    for (const Operation& each : operations)
      if (const Answer usual = each.expected(In::working); usual.not_called == nullptr) {
        process::step(each.name);
        if (each.attempt) is_expected(result_of(each, false), usual.result, each.name);
        if (each.call) is_expected(result_of(each, true), usual.result, each.name);
      }
  }
  return test::FailingAllocation::happened();
}

void first_use_without_memory(const Class& row) {
  // A device takes a while to begin, and allocations of the host are the same there.
  const int most = std::getenv("CUEVENT_DRIVER") != nullptr ? 200 : 2;
  auto* const happened = static_cast<bool*>(
      mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  *happened = true;
  for (int k = 1; k <= most && *happened && !process::disappointed(); ++k)
    expect(child_succeeds([&] {
             World w(World::primary());
             *happened = first_use(row, w, k);
             row.make(w)->check_all(In::working);
             take_reports(); // a retired event leaks, and says so
           }),
           "the process goes on after its allocation " + std::to_string(k) + " has failed");
  munmap(happened, sizeof(bool));
}

} // namespace

std::vector<Situation> situations_of_lives() {
  return {
      {.name = "moved-from and empty",
       .in = In::empty,
       .alone = Alone::no,
       .what = "The object was moved from, or was never given anything. The operations run, and the object "
               "that was moved to works and ends.",
       .rule = "An operation that needs the driver is refused with INVALID_HANDLE. It never reaches the "
               "driver.",
       .run = moved_from_and_empty,
       .impossible = needs_moves},
      {.name = "thread ends",
       .in = In::working,
       .alone = Alone::no,
       .what = "A thread makes an object, uses it and another thread's object, and ends. The other thread "
               "then uses both, and a third thread destroys one. What belongs to a scope ends with its "
               "thread.",
       .rule = "Everything works as if one thread did it.",
       .run = thread_ends},
      {.name = "allocation fails",
       .in = In::working,
       .alone = Alone::no,
       .what = "Each allocation of each operation fails in turn.",
       .rule =
           "The operation fails with OUT_OF_MEMORY or std::bad_alloc, or does without the memory. It works "
           "the next time, and nothing is left behind.",
       .run = an_allocation_fails},
      {.name = "first use without memory",
       .in = In::working,
       .alone = Alone::no,
       .what =
           "A new process makes its first object of the class and runs each operation. Each allocation of "
           "that fails in turn, each in a process of its own.",
       .rule =
           "What needs the memory fails with OUT_OF_MEMORY or std::bad_alloc, also in a noexcept overload. "
           "The next object works.",
       .run = first_use_without_memory},
      {.name = "driver error",
       .in = In::working,
       .alone = Alone::no,
       .what = "The driver calls of each operation fail in turn, except cuCtxGetId: if cuevent cannot tell "
               "whether "
               "a context exists, it destroys nothing there.",
       .rule = "The operation fails with that error, unless it only asked why another call failed. It works "
               "the next time, and nothing is left behind.",
       .run = a_driver_call_fails},
  };
}

} // namespace situations
