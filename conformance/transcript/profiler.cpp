// SPDX-License-Identifier: MIT
// The profiler's three calls. cudaProfiler.h declares them, and not every installation has this header.

#include "everywhere.hpp"

namespace transcript {
namespace {

using namespace std::chrono_literals;

template <class Function>
Function resolved(Lab& lab, const char* name) {
  void* address = nullptr;
  lab.must(lab.cu.GetProcAddress(name, &address, 4000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr), name);
  return reinterpret_cast<Function>(address);
}

struct Profiler {
  explicit Profiler(Lab& lab)
      : initialize(resolved<Initialize>(lab, "cuProfilerInitialize")),
        start(resolved<Switch>(lab, "cuProfilerStart")), stop(resolved<Switch>(lab, "cuProfilerStop")) {}

  using Initialize = CUresult (*)(const char* configuration, const char* output, int mode);
  using Switch = CUresult (*)();
  Initialize initialize;
  Switch start, stop;
};

void start_and_stop(Lab& lab) {
  const Profiler profiler(lab);
  lab.is("stop_first", profiler.stop());
  lab.is("start", profiler.start());
  lab.is("start.again", profiler.start());
  lab.is("stop", profiler.stop());
  lab.is("stop.again", profiler.stop());
  {
    const Current none(lab, nullptr);
    lab.is("no_context.start", profiler.start());
    lab.is("no_context.start.again", profiler.start());
    lab.is("no_context.stop", profiler.stop());
    lab.is("no_context.stop.again", profiler.stop());
  }
  {
    const Current other(lab, lab.second_context());
    lab.is("other_context.start", profiler.start());
  }
  lab.is("other_context.then_stop", profiler.stop());
  lab.is("other_thread.start", on_other_thread(lab, profiler.start));
  lab.is("other_thread.then_stop", profiler.stop());
  // Whether the calls wait for work.
  for (const auto& [name, call] : {std::pair("held.start", profiler.start), {"held.stop", profiler.stop}}) {
    Stream stream(lab);
    Gate gate(lab, stream);
    Background background(lab, call);
    lab.shows(std::string(name) + ".returns", background.returns_within(250ms));
    gate.open();
    lab.is(name, background.join());
    lab.must(lab.cu.StreamSynchronize(stream), "synchronize");
  }
  everywhere(lab, "start", [&](CUstream) { return profiler.start(); });
  everywhere(lab, "stop", [&](CUstream) { return profiler.stop(); });
}

void initialize(Lab& lab) {
  const Profiler profiler(lab);
  const auto ask = [&](const std::string& name, const char* configuration, int mode) {
    lab.is(name, profiler.initialize(configuration, "/dev/null", mode));
  };
  ask("pairs", "/dev/null", 0);
  ask("commas", "/dev/null", 1);
  ask("unknown_mode", "/dev/null", 99);
  ask("missing", "/nowhere/missing", 0);
  ask("no_name", "", 0);
  lab.is("then_start", profiler.start());
  ask("while_started", "/dev/null", 0);
  lab.is("then_stop", profiler.stop());
  everywhere(lab, "call", [&](CUstream) { return profiler.initialize("/dev/null", "/dev/null", 0); });
}

void initialize_with_nulls(Lab& lab) {
  const Profiler profiler(lab);
  lab.is("no_output", profiler.initialize("/dev/null", nullptr, 0));
  lab.is("no_configuration", profiler.initialize(nullptr, "/dev/null", 0));
  lab.is("nothing", profiler.initialize(nullptr, nullptr, 0));
}

void after_fault(Lab& lab) {
  const Profiler profiler(lab);
  const CUfunction kernel = lab.kernel("write_illegal_address");
  CUstream const stream = Stream(lab).release();
  lab.is("launch", lab.cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  std::this_thread::sleep_for(300ms); // the fault has happened, and no call has reported it
  lab.is("untold.start", profiler.start());
  lab.is("untold.stop", profiler.stop());
  lab.is("synchronize", lab.cu.StreamSynchronize(stream));
  lab.is("start", profiler.start());
  lab.is("stop", profiler.stop());
  lab.is("initialize", profiler.initialize("/dev/null", "/dev/null", 0));
}

} // namespace

std::vector<Scenario> profiler_scenarios() {
  return {{"profiler.start_and_stop", start_and_stop, Place::alone},
          {"profiler.initialize", initialize, Place::child},
          {"profiler.initialize_with_nulls", initialize_with_nulls, Place::child},
          {"profiler.after_fault", after_fault, Place::last}};
}

} // namespace transcript
