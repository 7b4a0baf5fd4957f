// SPDX-License-Identifier: MIT
#include "refusal.hpp"

#include "computer.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#include <unistd.h>
#endif

namespace cuevent::sim {

namespace {

void print(const char* verdict, const std::string& report) {
  const CallUnderWay call = call_under_way;
  if (call.name != nullptr) {
    std::fprintf(stderr, "cuevent sim: %s: %s\n  in call #%llu of simulated process %d\n  %s\n", call.name,
                 verdict, call.number, call.process, report.c_str());
  } else {
    std::fprintf(stderr, "cuevent sim: %s\n  %s\n", verdict, report.c_str());
  }
  std::fflush(stderr);
}

void print_refusal(const void* caller, const char* result = "CUDA_ERROR_NOT_SUPPORTED") {
  const std::string place = text_of_caller(caller);
  std::fprintf(stderr, "  The call returns %s%s%s\n", result, place.empty() ? "" : "; called from ",
               place.c_str());
  std::fflush(stderr);
}

thread_local std::string refusal_to_tell;

void print_stack() {
#if __has_include(<execinfo.h>)
  void* frames[32];
  const int count = backtrace(frames, 32);
  std::fputs("  called from:\n", stderr);
  std::fflush(stderr);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
#endif
}

} // namespace

void abort_with_report() {
  Computer& computer = Computer::instance();
  computer.report.add_end(computer.calls(), computer.scheduler.kernels());
  std::abort();
}

void undefined(const std::string& report) {
  print("undefined on a device", report);
  abort_with_report();
}

void misuse(const std::string& report) {
  if (misuse_is_thrown) throw Misuse{report};
  print("wrong control call", report);
  abort_with_report();
}

void crash_by(int signal, const std::string& report) {
  print("crashes on a device", report);
  std::signal(signal, SIG_DFL); // a sanitizer's handler would end the process in another way
  std::raise(signal);
  std::abort(); // if the signal is blocked
}

void crash(const std::string& report) { crash_by(SIGSEGV, report); }

void not_modelled(const std::string& what) {
  const CallUnderWay call = call_under_way;
  if (call.name == nullptr) { // not in a driver call
    print("not modelled", what);
    std::abort();
  }
  if (optional_calls > 0) refuse(CUDA_ERROR_NOT_SUPPORTED);
  Computer& computer = Computer::instance();
  const bool refuses = computer.options.unmodelled == Unmodelled::error;
  const void* const caller = caller_of_driver();
  if (computer.report.add_call(call.name, what, caller) || !refuses) {
    print("not modelled", what);
    if (refuses) print_refusal(caller);
  }
  if (!refuses) abort_with_report();
  if (refusal_hook.load() != nullptr) refusal_to_tell = call.name + (": " + what);
  refuse(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult call_of_a_host_function(const char* name) {
  const std::string who = "a host function, or the destructor of a user object, calls ";
  Computer& computer = Computer::instance();
  Computer::Lock lock(computer.mutex);
  if (computer.options.unmodelled != Unmodelled::error) {
    lock.unlock();
    undefined(who + name);
  }
  const void* const caller = caller_of_driver();
  const std::string what = "a call by a host function, or by the destructor of a user object";
  if (computer.report.add_call(name, what, caller)) {
    print("undefined on a device", who + name);
    print_refusal(caller, "CUDA_ERROR_NOT_PERMITTED");
  }
  lock.unlock();
  if (refusal_hook.load() != nullptr) refusal_to_tell = name + (": " + what);
  tell_refusal();
  return CUDA_ERROR_NOT_PERMITTED;
}

void tell_refusal() {
  const RefusalHook hook = refusal_hook.load();
  const std::string name = std::exchange(refusal_to_tell, {}); // the hook may call the driver
  if (hook != nullptr && !name.empty()) hook(name.c_str());
}

CUresult unmodelled_function(const char* name, const void* caller, Refusable refusable) {
  if (optional_calls > 0 && refusable == Refusable::yes) return CUDA_ERROR_NOT_SUPPORTED;
  Computer& computer = Computer::instance();
  Computer::Lock lock(computer.mutex);
  const bool refuses = computer.options.unmodelled == Unmodelled::error && refusable == Refusable::yes;
  if (computer.report.add_call(name, {}, caller) || !refuses) {
    std::fprintf(stderr,
                 "cuevent sim: %s: not modelled\n  The list of modelled functions is in sim/MODELLED.md and, "
                 "next to an installed libcuda.so.1, in modelled.txt\n",
                 name);
    std::fflush(stderr);
    if (refuses) print_refusal(caller);
  }
  if (refuses) {
    lock.unlock();
    if (refusal_hook.load() != nullptr) refusal_to_tell = name;
    tell_refusal();
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  print_stack();
  abort_with_report();
}

} // namespace cuevent::sim
