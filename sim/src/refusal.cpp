// SPDX-License-Identifier: MIT
#include "refusal.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>

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

} // namespace cuevent::sim
