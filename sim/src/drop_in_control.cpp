// SPDX-License-Identifier: MIT
// The control functions of cuevent/sim.hpp in plain C. packaging/wheel/sim.py calls them.
// Each returns null, or a text that says what was wrong; then nothing has changed. The text, and the lines
// that a function returns, are valid until the thread's next control call. Thread-safety is as in the header.

#include "drop_in.hpp"

#include "computer.hpp"
#include "kernel_gate.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cuevent::sim { namespace {

thread_local std::string returned;

template <class Body>
const char* control(Body body) {
  const bool before = misuse_is_thrown;
  misuse_is_thrown = true;
  bool done = false;
  try {
    body();
    done = true;
  } catch (const Misuse& wrong) {
    returned = wrong.report;
  } catch (const std::exception& error) {
    returned = error.what();
  }
  misuse_is_thrown = before;
  return done ? nullptr : returned.c_str();
}

template <class Texts>
const char* as_lines(const Texts& texts) {
  returned.clear();
  for (const std::string& text : texts)
    returned += text + '\n';
  return returned.c_str();
}

/// A created stream, or a default stream of a context. Without a context, of the current one.
struct Place {
  CUstream stream;
  CUcontext context;

  bool is_default() const {
    return context != nullptr || stream == nullptr || stream == CU_STREAM_LEGACY ||
           stream == CU_STREAM_PER_THREAD;
  }
  CUcontext of_default() const {
    if (context != nullptr) return context;
    const auto stack = context_stack();
    if (stack.empty())
      misuse("this thread has no current context: name the context of the stream, or make one current");
    return stack.back();
  }
};

[[noreturn]] void refuse_option(std::string_view option, const std::string& needed) {
  misuse("reset: " + std::string(option) + ": " + needed);
}

template <class Number>
Number number_of(std::string_view option, std::string_view value, Number least) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least)
    refuse_option(option, "the value must be a whole number from " + std::to_string(least) + " on");
  return number;
}

std::optional<std::uint64_t> seed_of(std::string_view option, std::string_view value) {
  if (value == "none") return std::nullopt;
  return number_of<std::uint64_t>(option, value, 0);
}

/// The index of the value in the list.
std::size_t choice_of(std::string_view option, std::string_view value,
                      std::initializer_list<std::string_view> choices) {
  std::string all;
  for (std::size_t i = 0; i != choices.size(); ++i) {
    if (value == choices.begin()[i]) return i;
    all += (i == 0 ? "" : ", ") + std::string(choices.begin()[i]);
  }
  refuse_option(option, "the value must be one of " + all);
}

/// Sets the member of Options that has this name.
void set(Options& options, std::string_view option) {
  const std::size_t equals = option.find('=');
  const std::string_view name = option.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : option.substr(equals + 1);
  if (name == "mode")
    options.mode = choice_of(option, value, {"stepped", "running"}) == 0 ? Mode::stepped : Mode::running;
  else if (name == "devices")
    options.devices = number_of<int>(option, value, 1);
  else if (name == "driver_version")
    options.driver_version = number_of<int>(option, value, 12000);
  else if (name == "random_order")
    options.random_order = seed_of(option, value);
  else if (name == "reuse_handles")
    options.reuse_handles = seed_of(option, value);
  else if (name == "patience")
    options.patience = std::chrono::milliseconds(number_of<long long>(option, value, 0));
  else if (name == "queue_limit")
    options.queue_limit = number_of<std::size_t>(option, value, 1);
  else if (name == "memory_operations_64_bit")
    options.memory_operations_64_bit = choice_of(option, value, {"0", "1"}) == 1;
  else if (name == "unmodelled")
    switch (choice_of(option, value, {"abort", "missing", "error"})) {
    case 0:
      options.unmodelled = Unmodelled::abort;
      break;
    case 1:
      options.unmodelled = Unmodelled::missing;
      break;
    default:
      options.unmodelled = Unmodelled::error;
    }
  else
    refuse_option(option, "there is no such option: use mode, devices, driver_version, random_order, "
                          "reuse_handles, patience, queue_limit, memory_operations_64_bit or unmodelled");
}

struct NamedResult {
  CUresult result;
  std::string_view name;
};
constexpr NamedResult named_results[] = {
#define RESULT(name, text) {name, #name},
#include "results.inc"
#undef RESULT
};

}} // namespace cuevent::sim

using namespace cuevent::sim;

#pragma GCC visibility push(default)
extern "C" {

/// Starts a new session with the options that the program was started with, changed by lines `name=value`.
/// patience is in milliseconds, and a seed can be `none`. If the process had called cuInit, it has called
/// cuInit in the new session too, because a program does so only once.
const char* cueventSimReset(const char* changes) {
  return control([&] {
    Options options = settings().options;
    for (std::string_view rest = changes; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      set(options, line);
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
    const bool initialized = [] {
      Computer& computer = Computer::instance();
      const Computer::Lock lock(computer.mutex);
      return computer.processes[0].initialized;
    }();
    reset(options);
    for (const auto& [name, kernel] : settings().kernels)
      set_kernel(name, kernel);
    if (initialized) ::cuInit(0);
  });
}

const char* cueventSimNow(long long* nanoseconds) {
  return control([&] { *nanoseconds = now().count(); });
}
const char* cueventSimAdvance(long long nanoseconds) {
  return control([&] { advance(Nanoseconds(nanoseconds)); });
}
const char* cueventSimStep(int* moved) {
  return control([&] { *moved = step() ? 1 : 0; });
}
const char* cueventSimRunUntilIdle() {
  return control([] { run_until_idle(); });
}

/// The context is null for a created stream, and for a default stream of the current context.
const char* cueventSimHold(CUstream stream, CUcontext context) {
  return control([&] {
    const Place place{stream, context};
    place.is_default() ? hold(stream, place.of_default()) : hold(stream);
  });
}
const char* cueventSimRelease(CUstream stream, CUcontext context) {
  return control([&] {
    const Place place{stream, context};
    place.is_default() ? release(stream, place.of_default()) : release(stream);
  });
}
const char* cueventSimPending(CUstream stream, CUcontext context, std::size_t* count) {
  return control([&] {
    const Place place{stream, context};
    *count = place.is_default() ? pending(stream, place.of_default()) : pending(stream);
  });
}
const char* cueventSimPendingOperations(const char** lines) {
  return control([&] { *lines = as_lines(pending_operations()); });
}

/// The result with this name or number.
const char* cueventSimResult(const char* text, int* result) {
  return control([&] {
    for (const NamedResult& row : named_results)
      if (text == row.name || text == std::to_string(row.result)) {
        *result = row.result;
        return;
      }
    misuse("there is no CUresult " + std::string(text) +
           ": use its number or its name, such as CUDA_ERROR_ILLEGAL_ADDRESS");
  });
}

/// A negative duration is endless.
const char* cueventSimSetKernel(const char* name, long long nanoseconds, int fault) {
  return control([&] {
    set_kernel(name, {nanoseconds < 0 ? endless : Nanoseconds(nanoseconds), static_cast<CUresult>(fault)});
  });
}
const char* cueventSimEndKernels(const char* name) {
  return control([&] { end_kernels(name); });
}

const char* cueventSimSetConditional(CUgraphExec exec, unsigned long long handle, unsigned value) {
  return control([&] { set_conditional(exec, handle, value); });
}

/// The gate of the next kernel that this thread launches or captures, as kernel_gate.hpp says. Without
/// `open`, the next kernel has none: for a launch that was refused.
const char* cueventSimGateNextKernel(int (*open)(void*, unsigned long long*), void (*release)(void*),
                                     void* state) {
  return control([&] {
    next_kernel_gate() = open == nullptr ? nullptr : std::make_shared<KernelGate>(open, release, state);
  });
}

const char* cueventSimFailNext(const char* function, int result) {
  return control([&] { fail_next(function, static_cast<CUresult>(result)); });
}
const char* cueventSimMakeContextFault(CUcontext context, int result) {
  return control([&] { make_context_fault(context, static_cast<CUresult>(result)); });
}
const char* cueventSimShutDown() {
  return control([] { shut_down(); });
}

/// In the order of HandleCounts.
const char* cueventSimLiveHandles(std::size_t* counts) {
  return control([&] {
    const HandleCounts live = live_handles();
    for (const std::size_t count : {live.contexts, live.streams, live.events, live.graphs, live.graph_execs,
                                    live.user_objects, live.modules, live.allocations})
      *counts++ = count;
  });
}
/// As cuevent::sim::context_stack: writes at most `size` contexts, and says how many there are.
const char* cueventSimContextStack(CUcontext* contexts, std::size_t size, std::size_t* count) {
  return control([&] { *count = context_stack(contexts, size, 0); });
}
const char* cueventSimCalls(unsigned long long* count) {
  return control([&] { *count = calls(); });
}

/// Calls the hook after each call that was refused because it is not modelled. The hook runs on the thread of
/// the call, and gets the name that cueventSimTakeUnmodelled has. Null ends this.
const char* cueventSimOnUnmodelled(void (*hook)(const char* name)) {
  return control([&] { refusal_hook.store(hook); });
}

/// Each name, a tab, and its first caller if that is known.
const char* cueventSimTakeUnmodelled(const char** lines) {
  return control([&] {
    Computer& computer = Computer::instance();
    const Computer::Lock lock(computer.mutex);
    std::vector<std::string> texts;
    for (const auto& [name, caller] : computer.report.take_calls())
      texts.emplace_back(name).append("\t").append(caller);
    *lines = as_lines(texts);
  });
}

} // extern "C"
#pragma GCC visibility pop
