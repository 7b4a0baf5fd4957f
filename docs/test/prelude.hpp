// SPDX-License-Identifier: MIT
// What the examples in the pages use without declaring it. Each example runs as a separate function on a
// separate simulated driver, with no context current. It has `driver`, `context`, the streams `stream` and
// `other` of that context, and submit(stream), which gives a stream 10 ms of work.
#pragma once

#include <cuevent/capture.hpp>
#include <cuevent/capture_fork.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/explain.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/measure.hpp>
#include <cuevent/retired_events.hpp>
#include <cuevent/sim.hpp>
#include <cuevent/stage_timer.hpp>
#include <cuevent/text.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <atomic>
#undef NDEBUG
#include <cassert>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

using namespace cuevent;
using namespace std::chrono_literals;

#define GIVEN                                                                                                \
  [[maybe_unused]] const Driver &driver, [[maybe_unused]] const Context &context,                            \
      [[maybe_unused]] CUstream stream, [[maybe_unused]] CUstream other

namespace {

/// The function that launches the kernel of submit().
CUfunction work = nullptr;

template <class Function, class... Arguments>
void call(const char* name, int version, Arguments... arguments) {
  Function function = nullptr;
  sim::get_proc_address(name, reinterpret_cast<void**>(&function), version, 0, nullptr);
  if (const CUresult result = function(arguments...); result != CUDA_SUCCESS) throw_error(result, name);
}

[[maybe_unused]] void submit(CUstream stream) {
  call<PFN_cuLaunchKernel_v4000>("cuLaunchKernel", 4000, work, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, nullptr,
                                 nullptr);
}

struct Example {
  int line;
  void (*run)(GIVEN);
};

/// Runs one example. Returns what the example left behind, or null if nothing.
const char* leak_of(const Example& example) {
  const sim::Machine machine;
  const Driver driver(sim::get_proc_address);
  const Context context = Context::primary(0, driver);
  CUstream stream = nullptr, other = nullptr;
  {
    const ContextGuard current(context);
    call<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000, &stream, CU_STREAM_NON_BLOCKING);
    call<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000, &other, CU_STREAM_NON_BLOCKING);
    CUmodule module = nullptr;
    call<PFN_cuModuleLoadData_v2000>("cuModuleLoadData", 2000, &module,
                                     ".version 8.0 .visible .entry work() { ret; }");
    call<PFN_cuModuleGetFunction_v2000>("cuModuleGetFunction", 2000, &work, module, "work");
  }
  sim::set_kernel("work", {.duration = 10ms});
  example.run(driver, context, stream, other);
  DriverEvent probe;
  // A fault: nothing can be destroyed.
  if (is_sticky(DriverEvent::try_create(probe, context))) return nullptr;
  probe.close();
  sim::run_until_idle();
  destroy_retired();
  const sim::HandleCounts left = sim::live_handles();
  if (!sim::context_stack().empty()) return "a context is left current";
  if (left.events != 0) return "an event is left";
  return left.graphs + left.graph_execs != 0 ? "a graph is left" : nullptr;
}

int run(const char* page, std::initializer_list<Example> examples) {
  int failures = 0;
  for (const Example& example : examples) {
    try {
      const char* const leak = leak_of(example);
      if (leak == nullptr) continue;
      std::fprintf(stderr, "%s:%d: %s by this example\n", page, example.line, leak);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s:%d: this example threw: %s\n", page, example.line, error.what());
    }
    ++failures;
  }
  return failures == 0 ? 0 : 1;
}

} // namespace
