#include "refusal.hpp"

#include <cstdio>
#include <cstdlib>

namespace cuevent::sim {

namespace {

[[noreturn]] void end(const char* verdict, const std::string& report) {
  const CallUnderWay call = call_under_way;
  if (call.name != nullptr) {
    std::fprintf(stderr, "cuevent sim: %s: %s\n  in call #%llu of simulated process %d\n  %s\n", call.name,
                 verdict, call.number, call.process, report.c_str());
  } else {
    std::fprintf(stderr, "cuevent sim: %s\n  %s\n", verdict, report.c_str());
  }
  std::fflush(stderr);
  std::abort();
}

} // namespace

void undefined(const std::string& report) { end("undefined on a device", report); }

void not_modelled(const std::string& what) { end("not modelled", what); }

} // namespace cuevent::sim
