// SPDX-License-Identifier: MIT
#include "situations.hpp"

#include "../processes/children/scenario.hpp"
#include "allocations.hpp"
#include "driver_under_test.hpp"
#include "layer.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/error.hpp>
#include <cuevent/text.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <execinfo.h>
#include <new>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace situations {

using namespace cuevent;
using process::expect;

namespace {

std::atomic<int> reports{0};

void report(CUresult, const char* call, void*) noexcept {
  ++reports;
  process::step(call);
}

enum Row {
#define CUEVENT_REQUIRED(name, version) row_##name##_v##version,
#include <cuevent/driver_symbols.inc>
};
/// The allocations of the driver succeed. They are not the library's.
template <Row>
struct Safe {
  template <class Function, class... Arguments>
  static CUresult call(Function below, Arguments... arguments) {
    const test::SafeAllocations safe;
    return below(arguments...);
  }
};

CUresult CUDAAPI get_safe(const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  const test::SafeAllocations safe;
  const CUresult result = test::driver().table().get_proc_address(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
#define CUEVENT_REQUIRED(row, since)                                                                         \
  if (std::string_view(name) == #row && version == (since))                                                  \
    *function = test::put_in_front<Safe<row_##row##_v##since>, PFN_##row##_v##since>(*function);
#include <cuevent/driver_symbols.inc>
  return result;
}

CUstream made_in(const Context& context) {
  const ContextGuard current(context);
  CUstream stream = nullptr;
  const CUresult result = context.driver().table().cuStreamCreate_v2000(&stream, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) context.driver().fail(result, "cuStreamCreate");
  return stream;
}

bool agrees(CUresult result, CUresult expected) {
  return result == expected || (expected == CUDA_SUCCESS && result == CUDA_ERROR_NOT_READY);
}

/// The first object of the program, so its destructor comes last. Only libraries are unloaded after it.
struct LastDestructor {
  ~LastDestructor() { has_run = true; }
  static inline volatile std::sig_atomic_t has_run = false;
};
[[gnu::init_priority(101)]] const LastDestructor last_destructor;

volatile std::sig_atomic_t driver_is_real = false;

/// Shows the stack of a crash, as a sanitizer does by itself. Accepts a crash of a real driver that is
/// unloaded: another thread of the parent may have been changing its context (docs/what-the-driver-does.md).
void expect_crashes() {
#ifndef SANITIZED
  struct sigaction action {};
  action.sa_handler = [](int number) {
    if (driver_is_real && LastDestructor::has_run) _exit(process::disappointed());
    std::array<void*, 32> frames{};
    backtrace_symbols_fd(frames.data(), backtrace(frames.data(), static_cast<int>(frames.size())), 2);
    raise(number); // after this handler, by SA_RESETHAND
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT})
    sigaction(number, &action, nullptr);
#endif
}

} // namespace

World::World(Context of) : context(std::move(of)), stream(made_in(context)), other(made_in(context)) {}

World::~World() {
  if (context.status() != CUDA_SUCCESS || faulted) return;
  synchronize();
  for (CUstream each : {stream, other})
    context.driver().table().cuStreamDestroy_v4000(each);
}

const Driver& driver() {
  static const Driver safe = [] {
    test::set_driver(Driver::instance().table().get_proc_address);
    driver_is_real = !test::simulated();
    set_error_hook(report);
    return Driver(get_safe);
  }();
  return safe;
}

Context World::primary(int device) { return Context::primary(device, driver()); }

void World::synchronize() const {
  const CaptureModeGuard relaxed(context.driver()); // harms no capture of this thread
  const auto wait = context.driver().entry_point<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000);
  for (CUstream each : {stream, other}) {
    CUstreamCaptureStatus status{};
    context.driver().table().cuStreamIsCapturing_v10000(each, &status);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) wait(each);
  }
}

CUstream World::make_stream() const { return made_in(context); }

Answer Operation::expected(In in) const {
  if (const auto found = exceptions.find(in); found != exceptions.end()) return found->second;
  // What an operation does at any time, it also does where it works as usual.
  const auto always = exceptions.find(In::working);
  const Answer usual = always != exceptions.end() ? always->second : Answer{};
  const bool no_call = does == Does::nothing;
  switch (in) {
  case In::working:
  case In::capturing:
    return usual;
  case In::empty:
    if (does == Does::makes) return {.not_called = "it makes an object"};
    return no_call ? usual : Answer{.result = CUDA_ERROR_INVALID_HANDLE};
  case In::forked:
    return no_call ? usual : Answer{.result = CUDA_ERROR_NOT_INITIALIZED};
  case In::exited:
    return no_call ? usual : Answer{.result = CUDA_ERROR_DEINITIALIZED};
  case In::lost:
    return no_call ? usual : Answer{.result = CUDA_ERROR_CONTEXT_IS_DESTROYED};
  case In::faulted:
    return no_call ? usual : Answer{.result = CUDA_ERROR_ILLEGAL_ADDRESS};
  case In::full_queue:
    return does == Does::makes ? Answer{.not_called = "it can wait, as DriverEvent's constructor"} : usual;
  case In::other_device:
    if (does != Does::submits) return {.not_called = ""};
    return {.result = CUDA_ERROR_INVALID_HANDLE};
  case In::misnamed:
  case In::interrupted:
    return {.not_called = ""};
  case In::captured:
    return does == Does::submits ? Answer{.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED} : usual;
  }
  return usual;
}

CUresult result_of(const Operation& operation, bool throwing) {
  try {
    if (!throwing) return operation.attempt();
    operation.call();
    return CUDA_SUCCESS;
  } catch (const DriverError& error) {
    return error.result();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

void check(const Operation& operation, const Answer& answer) {
  if (answer.not_called != nullptr) return;
  process::step(operation.name);
  const auto compare = [&](CUresult result, const char* overload) {
    expect(agrees(result, answer.result), std::string(operation.name) + ", " + overload + ": " +
                                              to_string(answer.result) + ", and not " + to_string(result));
  };
  if (operation.attempt) compare(result_of(operation, false), "non-throwing");
  if (operation.call) compare(result_of(operation, true), "throwing");
}

void Subject::check_all(In in) {
  for (const Operation& each : operations())
    check(each, each.expected(in));
}

int take_reports() { return reports.exchange(0); }

bool child_succeeds(const std::function<void()>& run, bool exits) {
  constexpr auto longest = std::chrono::seconds(20); // the machine may be busy
  const pid_t child = fork();
  if (child == 0) {
    alarm(30); // if the parent ends first
    try {
      run();
      expect(take_reports() == 0, "destructors report nothing in the child");
    } catch (const std::exception& error) {
      expect(false, std::string("no exception in the child: ") + error.what());
    }
    if (exits) {
      expect_crashes();
      std::exit(process::disappointed());
    }
    _exit(process::disappointed());
  }
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() - begin > longest) {
      expect(false, "the child ends");
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

const char* not_tested(const Class& row, const Situation& column) {
  if (const auto found = row.except.find(column.name); found != row.except.end()) return found->second;
  return column.impossible(row);
}

std::vector<Class> all_classes() {
  std::vector<Class> all;
  for (const auto& some : {core_classes, graph_classes, scheduling_classes, timing_classes}) {
    const std::vector<Class> classes = some();
    all.insert(all.end(), classes.begin(), classes.end());
  }
  return all;
}

std::vector<Situation> all_situations() {
  std::vector<Situation> all;
  for (const auto& some : {situations_of_lives, situations_of_signals, situations_of_streams,
                           situations_of_processes, situations_of_contexts}) {
    const std::vector<Situation> situations = some();
    all.insert(all.end(), situations.begin(), situations.end());
  }
  return all;
}

} // namespace situations
