// SPDX-License-Identifier: MIT
#include "refusal.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>

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

void undefined(const std::string& report) {
  print("undefined on a device", report);
  std::abort();
}

void crash(const std::string& report) {
  print("crashes on a device", report);
  std::signal(SIGSEGV, SIG_DFL); // a sanitizer's handler would end the process in another way
  std::raise(SIGSEGV);
  std::abort(); // if the signal is blocked
}

void not_modelled(const std::string& what) {
  print("not modelled", what);
  std::abort();
}

void unmodelled_function(const char* name) {
  std::fprintf(
      stderr,
      "cuevent sim: %s: not modelled\n  The list of modelled functions is in sim/MODELLED.md and, next to "
      "an installed libcuda.so.1, in modelled.txt\n",
      name);
  std::fflush(stderr);
  print_stack();
  std::abort();
}

} // namespace cuevent::sim
